internal import DequeModule
internal import InterlockCore

/// Findings that news of a breaker would explain: a sidecar acts on a change as soon as it knows of it, and the history learns
/// of it a moment later. They stand when no such news came for half a second.
struct DoubtfulFindings: Sendable {
    struct Finding: Sendable {
        var service: Int
        /// Of the breaker's state that it contradicts.
        var generation: Int64
        /// News from then on explain nothing any more.
        var until: Instant?
        var violation: Violation
    }

    /// In nanoseconds.
    private static let patience: Int64 = 500_000_000
    /// More are not kept apart: the oldest are dropped.
    private static let capacity = 1024

    private var findings: Deque<Finding> = []

    mutating func append(_ finding: Finding) {
        if findings.count == Self.capacity { findings.removeFirst() }
        findings.append(finding)
    }

    /// A breaker's state has changed to one that explains them.
    mutating func explain(_ service: Int, generation: Int64, at instant: Instant) {
        guard !findings.isEmpty else { return }
        findings.removeAll {
            $0.service == service && $0.generation < generation && $0.until.map { instant < $0 } ?? true
        }
    }

    mutating func removeAll() { findings.removeAll() }

    /// Those that nothing explains.
    mutating func settle(at instant: Instant, into violations: inout [Violation]) {
        while let first = findings.first, first.violation.at.nanoseconds + Self.patience <= instant.nanoseconds {
            violations.append(first.violation)
            findings.removeFirst()
        }
    }
}
