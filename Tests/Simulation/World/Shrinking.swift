import InterlockCore
import InterlockJudge

/// Cuts a story down to what still shows the same finding: fewer operations, then fewer faults, then fewer clients.
public struct Shrinking: Sendable {
    private let seed: UInt64
    /// What is to be seen still: the name of a known cause, or a promise.
    private let target: String
    private(set) var operations: Int
    private(set) var omitted: Set<Int> = []
    private(set) var withoutClients: Set<Int> = []
    /// The shortest story so far.
    public private(set) var result: WorldResult

    /// - Parameter result: of an ordinary run with so many operations; it has findings.
    public init?(_ result: WorldResult, operations: Int, target: String? = nil) {
        seed = result.seed
        self.operations = operations
        self.result = result
        guard let target = target ?? result.unknown.first?.promise.rawValue ?? result.known.keys.sorted().first else {
            return nil
        }
        self.target = target
    }

    private func shows(_ result: WorldResult) -> Bool {
        result.known[target] != nil || result.unknown.contains { $0.promise.rawValue == target }
    }

    /// - Parameter tell: is told what is being tried.
    public mutating func run(tell: (String) -> Void) {
        tell("\(target): fewer operations than \(operations)")
        while operations > 50, attempt(operations: operations * 2 / 3) {}
        while operations > 50, attempt(operations: operations * 9 / 10) {}
        tell("\(target): fewer faults than \(result.faults.count), with \(operations) operations")
        for fault in result.faults.reversed() { _ = attempt(omitting: fault.number) }
        tell("\(target): fewer clients than \(result.clients.count), with \(result.faults.count) faults")
        for client in result.clients { _ = attempt(without: client) }
        for fault in result.faults.reversed() { _ = attempt(omitting: fault.number) }
    }

    private mutating func attempt(operations fewer: Int? = nil, omitting fault: Int? = nil, without client: Int? = nil) -> Bool {
        let omitted = fault.map { self.omitted.union([$0]) } ?? self.omitted
        let clients = client.map { withoutClients.union([$0]) } ?? withoutClients
        let operations = fewer ?? operations
        let world = World(seed: seed, omitting: omitted, withoutClients: clients, keptEvents: 4000)
        let result = world.run(operations: operations)
        guard shows(result) else { return false }
        (self.omitted, withoutClients, self.operations, self.result) = (omitted, clients, operations, result)
        return true
    }

    /// The story in words: who took part, what broke, and what was asked of the lock or service before the finding.
    public var story: [String] {
        let beginning = Timeline.beginning / 1_000_000
        func time(_ instant: Instant) -> String { "\(instant.nanoseconds / 1_000_000 - beginning) ms" }
        var lines = result.profile.split(separator: "\n").map(String.init)
        lines.append(
            "\(result.clients.count - withoutClients.count) clients, \(result.operations) operations, \(result.faults.count) faults"
        )
        for fault in result.faults {
            let whose = fault.sidecar.map { " of sidecar \($0)" } ?? ""
            lines.append(
                "\(time(fault.began)) to \(fault.ended.map(time) ?? "the end"): #\(fault.number) \(fault.kind.rawValue)\(whose), \(fault.words)"
            )
        }
        guard let finding = result.unknown.first(where: { $0.promise.rawValue == target }) ?? result.known[target]?.first else {
            return lines
        }
        lines.append("\(time(finding.at)): \(finding.promise.rawValue): \(finding.finding)")
        let subject = finding.finding.hasPrefix("lock ") ? "lock: \(finding.finding.dropFirst(5).prefix { $0.isNumber })," : nil
        let before = result.tail.filter { $0.at <= finding.at && (subject.map("\($0.what)".contains) ?? true) }
        for event in before.suffix(12) { lines.append("  \(time(event.at)) \(event.what)") }
        return lines
    }
}
