/// Counts consecutive probes of one service and decides on the findings to report to its breaker.
///
/// A service that is up is reported once, even right after the process started, because another sidecar or an earlier
/// process may have tripped the breaker. A closed breaker ignores that report.
package struct OutageWatch: Sendable {
    private let unhealthyAfter: Int
    private let healthyAfter: Int
    /// The number of consecutive failed probes.
    package private(set) var failures = 0
    /// The number of consecutive successful probes.
    package private(set) var successes = 0
    private var hasReportedUp = false

    /// - Parameters:
    ///   - unhealthyAfter: the number of failed probes in a row that is an outage; less than 1 counts as 1.
    ///   - healthyAfter: the number of successful probes in a row that ends an outage; less than 1 counts as 1.
    package init(unhealthyAfter: Int, healthyAfter: Int) {
        self.unhealthyAfter = max(1, unhealthyAfter)
        self.healthyAfter = max(1, healthyAfter)
    }

    /// Counts the finding of a probe.
    /// - Parameter isOpenByOutage: whether an outage is known to keep the breaker open or half-open.
    /// - Returns: the finding to report to the breaker; `nil` if there is none. An outage is reported with each further
    ///   failed probe, even one that another sidecar found, because it must not lapse while this sidecar begins to
    ///   count.
    package mutating func record(_ finding: ProbeFinding, isOpenByOutage: Bool) -> OutageFinding? {
        switch finding {
        case .unjudged:
            return nil
        case .bad(let reason):
            successes = 0
            failures += 1
            guard failures >= unhealthyAfter || isOpenByOutage else { return nil }
            hasReportedUp = false
            return .down(reason: reason.description)
        case .good:
            failures = 0
            successes += 1
            return successes >= healthyAfter && (!hasReportedUp || isOpenByOutage) ? .up : nil
        }
    }

    /// Records that a finding reached the breaker. A finding that did not is reported again if the next probe confirms
    /// it.
    package mutating func reported(_ finding: OutageFinding) {
        hasReportedUp = finding == .up
    }
}
