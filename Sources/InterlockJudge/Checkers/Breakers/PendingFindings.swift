internal import DequeModule
internal import InterlockCore

/// Findings that a later report of a breaker's state may explain. A sidecar applies a change immediately, and the
/// history records the change a moment later. A finding becomes final if no report explains it within half a second.
struct PendingFindings: Sendable {
    struct Finding: Sendable {
        var service: Int
        /// The generation of the state that the finding contradicts.
        var generation: Int64
        /// The time before which a report explains the finding; `nil` if any later report does.
        var until: Instant?
        var violation: Violation
    }

    /// The time to wait for an explanation, in nanoseconds.
    private static let explanationNanoseconds: Int64 = 500_000_000
    /// The maximum number of findings. Above it, `append` drops the oldest.
    private static let capacity = 1024

    private var findings: Deque<Finding> = []

    mutating func append(_ finding: Finding) {
        if findings.count == Self.capacity { findings.removeFirst() }
        findings.append(finding)
    }

    /// Drops the findings that a change of a breaker explains.
    mutating func explain(_ service: Int, generation: Int64, at instant: Instant) {
        guard !findings.isEmpty else { return }
        findings.removeAll {
            $0.service == service && $0.generation < generation && $0.until.map { instant < $0 } ?? true
        }
    }

    mutating func removeAll() { findings.removeAll() }

    /// Reports the findings that were not explained in time.
    mutating func finalize(at instant: Instant, into violations: inout [Violation]) {
        while let first = findings.first,
            first.violation.at.nanoseconds + Self.explanationNanoseconds <= instant.nanoseconds
        {
            violations.append(first.violation)
            findings.removeFirst()
        }
    }
}
