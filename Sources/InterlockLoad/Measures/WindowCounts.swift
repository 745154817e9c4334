internal import InterlockJudge
internal import InterlockCore

/// The grants in each window of a service's limit, for as many services and windows as a plot can show. Includes only
/// services with exactly one limit that applies to all subjects together.
struct WindowCounts: Sendable {
    static let maximumServices = 6
    static let maximumWindows = 1500

    fileprivate struct Line: Sendable {
        var name: String
        var rule: LimitRule
        var open: Window?
        var windows: [WindowCount] = []
    }

    fileprivate struct Window: Sendable {
        var beganNanoseconds: Int64
        var granted: Int64
    }

    private let start: Instant
    private var lines: [Int: Line] = [:]

    init(start: Instant, services: LoadServices) {
        self.start = start
        for service in services.takeServiceNumbers {
            let rules = services.rules[service]
            guard lines.count < Self.maximumServices, rules.limits.count == 1, let rule = rules.limits.first, !rule.isPerSubject
            else { continue }
            lines[service] = Line(name: rules.name, rule: rule)
        }
    }

    /// Counts a call that the limit allowed.
    /// - Parameter resetAfterMilliseconds: the time until the end of the window that counted the call, if the limit
    ///   has fixed windows.
    mutating func recordTake(service: Int, cost: Int64, resetAfterMilliseconds: Int64, at now: Instant) {
        guard let rule = lines[service]?.rule else { return }
        let nowNanoseconds = now.nanoseconds - start.nanoseconds
        let lengthNanoseconds = rule.windowMilliseconds * 1_000_000
        let beganNanoseconds: Int64
        if rule.hasFixedWindows {
            let endNanoseconds = nowNanoseconds + resetAfterMilliseconds * 1_000_000
            // The answers of one window report ends that differ by the latencies. So a call belongs to the open window
            // unless its own window begins at least half a window later.
            if let open = lines[service]?.open,
                endNanoseconds - lengthNanoseconds < open.beganNanoseconds + lengthNanoseconds / 2
            {
                beganNanoseconds = open.beganNanoseconds
            } else {
                beganNanoseconds = endNanoseconds - lengthNanoseconds
            }
        } else {
            // Other limits hold in every window of this length, so windows aligned with the start of the run are valid.
            beganNanoseconds = nowNanoseconds - nowNanoseconds % lengthNanoseconds
        }
        lines[service]?.count(cost, inWindowFrom: beganNanoseconds)
    }

    /// The windows of all services, including those that are still open.
    var all: [WindowCount] {
        lines.sorted { $0.key < $1.key }.flatMap { _, line in line.windows + line.lastWindow }
    }
}

extension WindowCounts.Line {
    fileprivate mutating func count(_ cost: Int64, inWindowFrom beganNanoseconds: Int64) {
        if let open, open.beganNanoseconds >= beganNanoseconds {
            self.open?.granted += cost
            return
        }
        if windows.count < WindowCounts.maximumWindows { windows += lastWindow }
        open = WindowCounts.Window(beganNanoseconds: beganNanoseconds, granted: cost)
    }

    /// The maximum amount that the limit may grant in a window.
    private var maximumInWindow: Int64 {
        switch rule.algorithm {
        case .fixed, .sliding: rule.limit
        case .gcra: rule.limit + rule.burst
        }
    }

    fileprivate var lastWindow: [WindowCount] {
        guard let open else { return [] }
        return [
            WindowCount(
                service: name, beganSeconds: Double(open.beganNanoseconds) / 1e9, granted: open.granted,
                limit: maximumInWindow)
        ]
    }
}
