import InterlockCore
import InterlockJudge

/// The parts of a world that remain when its story is shrunk.
package struct WorldSubset: Sendable {
    /// The numbers of the faults that happen; `nil` if all do.
    package var faults: Set<Int>?
    /// The numbers of the active clients; `nil` if all are.
    package var clients: Set<Int>?
    /// The time at which all faults end, in milliseconds; `nil` to end them after enough operations.
    package var milliseconds: Int64?
    /// Whether Redis is a single server and all clients speak RESP, as in the first worlds.
    package var isPlain: Bool

    package init(faults: Set<Int>? = nil, clients: Set<Int>? = nil, milliseconds: Int64? = nil, isPlain: Bool = false) {
        self.isPlain = isPlain
        self.faults = faults
        self.clients = clients
        self.milliseconds = milliseconds
    }
}

/// Shrinks a story while it still shows the same finding: it cuts off the end after the finding, then removes faults,
/// then clients.
package struct Shrinker: Sendable {
    private let seed: UInt64
    /// The finding that must remain: the name of a known cause, or the raw value of an invariant.
    private let target: String
    private let operations: Int
    private var subset: WorldSubset
    /// The shortest story so far.
    package private(set) var result: WorldResult

    /// Creates a shrinker; `nil` if the result has no finding.
    /// - Parameters:
    ///   - result: the result of a run with this many operations and with findings.
    ///   - isPlain: the value of `isPlain` in the run's `WorldSubset`.
    package init?(_ result: WorldResult, operations: Int, target: String? = nil, isPlain: Bool = false) {
        seed = result.seed
        self.operations = operations
        self.result = result
        guard
            let target = target ?? result.unknownFindings.first?.invariant.rawValue
                ?? result.knownFindings.keys.sorted().first
        else {
            return nil
        }
        self.target = target
        subset = WorldSubset(faults: Set(result.faults.map(\.number)), clients: Set(result.clients), isPlain: isPlain)
        if let finding = finding(in: result) { subset.milliseconds = Self.milliseconds(finding) }
    }

    /// Returns the first whole millisecond after a finding, counted from the beginning of the world.
    private static func milliseconds(_ finding: Violation) -> Int64 {
        (finding.at.nanoseconds - WorldTimeline.beginning) / 1_000_000 + 1
    }

    private func finding(in result: WorldResult) -> Violation? {
        result.unknownFindings.first { $0.invariant.rawValue == target } ?? result.knownFindings[target]?.first
    }

    /// Shrinks the story.
    /// - Parameter report: receives the progress.
    package mutating func run(report: (String) -> Void) {
        guard attempt(subset) else { return }
        report("\(target): fewer faults than \(result.faults.count)")
        minimize(\.faults)
        report("\(target): fewer clients than \(subset.clients?.count ?? 0), with \(result.faults.count) faults")
        minimize(\.clients)
        minimize(\.faults)
    }

    /// Removes as many items as possible: halves first, then quarters, down to single ones.
    private mutating func minimize(_ part: WritableKeyPath<WorldSubset, Set<Int>?>) {
        var remaining = (subset[keyPath: part] ?? []).sorted()
        var size = max(1, remaining.count / 2)
        while true {
            var neededItems: [Int] = []
            for start in stride(from: 0, to: remaining.count, by: size) {
                let chunk = remaining[start..<min(start + size, remaining.count)]
                var candidate = subset
                candidate[keyPath: part]?.subtract(chunk)
                if !attempt(candidate) { neededItems += chunk }
            }
            remaining = neededItems
            guard size > 1 else { return }
            size /= 2
        }
    }

    /// Runs a smaller world. Keeps it, and returns `true`, if it still shows the finding.
    private mutating func attempt(_ subset: WorldSubset) -> Bool {
        let result = World(seed: seed, subset: subset).run(operations: operations)
        guard let finding = finding(in: result) else { return false }
        (self.subset, self.result) = (subset, result)
        self.subset.milliseconds = min(Self.milliseconds(finding), subset.milliseconds ?? .max)
        // Faults that did not happen need not be removed.
        self.subset.faults?.formIntersection(result.faults.map(\.number))
        return true
    }

    /// The story as text: profile, faults, and the last calls for the lock or service of the finding.
    package var story: [String] {
        let beginning = WorldTimeline.beginning / 1_000_000
        func time(_ instant: Instant) -> String { "\(instant.nanoseconds / 1_000_000 - beginning) ms" }
        var lines = result.profile.split(separator: "\n").map(String.init)
        lines.append(
            "\(subset.clients?.count ?? result.clients.count) clients, \(result.operations) operations, \(result.faults.count) faults"
        )
        for fault in result.faults {
            let scope = fault.sidecar.map { " of sidecar \($0)" } ?? ""
            lines.append(
                "\(time(fault.began)) to \(fault.ended.map(time) ?? "the end"): #\(fault.number) "
                    + "\(fault.kind.rawValue)\(scope), \(fault.description)"
            )
        }
        guard let finding = finding(in: result) else { return lines }
        lines.append("\(time(finding.at)): \(finding.invariant.rawValue): \(finding.finding)")
        let relevant = StoryCall.all(of: result.events).filter {
            $0.began <= finding.at && $0.isAbout(finding, services: result.services)
        }
        for call in relevant.suffix(16) {
            let end = call.ended.map { "to \(time($0))" } ?? "on"
            let ending = call.ending.map { "\($0)" } ?? "in progress"
            lines.append(
                "  \(time(call.began)) \(end): client \(call.client) at sidecar \(call.sidecar): \(call.operation): \(ending)")
        }
        lines.append(
            "seed \(seed), faults \((subset.faults ?? []).sorted()), clients \((subset.clients ?? []).sorted()), until \(subset.milliseconds ?? 0) ms"
        )
        return lines
    }
}
