internal import DequeModule
internal import InterlockCore

/// Findings that later news of a breaker may explain. A sidecar acts on a change at once, and the history hears of the change a
/// moment later. A finding becomes final if no such news comes within half a second.
struct DoubtfulFindings: Sendable {
    struct Finding: Sendable {
        var service: Int
        /// The generation of the state that the finding contradicts.
        var generation: Int64
        /// Later news explains nothing; `nil` if any news does.
        var until: Instant?
        var violation: Violation
    }

    /// In nanoseconds.
    private static let patience: Int64 = 500_000_000
    /// Beyond this many, the oldest are dropped.
    private static let capacity = 1024

    private var findings: Deque<Finding> = []

    mutating func append(_ finding: Finding) {
        if findings.count == Self.capacity { findings.removeFirst() }
        findings.append(finding)
    }

    /// A breaker changed to a state that explains findings.
    mutating func explain(_ service: Int, generation: Int64, at instant: Instant) {
        guard !findings.isEmpty else { return }
        findings.removeAll {
            $0.service == service && $0.generation < generation && $0.until.map { instant < $0 } ?? true
        }
    }

    mutating func removeAll() { findings.removeAll() }

    /// Reports the findings that nothing has explained in time.
    mutating func settle(at instant: Instant, into violations: inout [Violation]) {
        while let first = findings.first, first.violation.at.nanoseconds + Self.patience <= instant.nanoseconds {
            violations.append(first.violation)
            findings.removeFirst()
        }
    }
}
