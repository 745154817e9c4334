/// Counts consecutive probes of one service, and decides which findings to report to the service's breaker.
///
/// The watch also reports once that a service is up right after the process has started, because another sidecar or an
/// earlier process may have tripped the breaker. A closed breaker ignores that report.
package struct OutageWatch: Sendable {
    private let unhealthyAfter: Int
    private let healthyAfter: Int
    /// The number of consecutive failed probes.
    package private(set) var failures = 0
    /// The number of consecutive successful probes.
    package private(set) var successes = 0
    private var hasReportedUp = false

    /// Creates a watch that has seen no probe.
    /// - Parameters:
    ///   - unhealthyAfter: the number of failed probes in a row that makes an outage; less than 1 counts as 1.
    ///   - healthyAfter: the number of successful probes in a row that ends an outage; less than 1 counts as 1.
    package init(unhealthyAfter: Int, healthyAfter: Int) {
        self.unhealthyAfter = max(1, unhealthyAfter)
        self.healthyAfter = max(1, healthyAfter)
    }

    /// Counts the finding of a probe.
    /// - Parameter isOpenByOutage: whether an outage is known to keep the breaker open or half-open.
    /// - Returns: the finding to report to the breaker; `nil` to report nothing. The watch reports an outage, even one
    ///   that another sidecar found, with each further failed probe. Otherwise the outage could lapse while this
    ///   sidecar begins to count.
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

    /// Records that a finding reached the breaker. Without this call, the watch returns the finding again if the next
    /// probe confirms it.
    package mutating func findingReported(_ finding: OutageFinding) {
        hasReportedUp = finding == .up
    }
}
