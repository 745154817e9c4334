/// Counts the probes of one service in a row, and says what its breaker is to be told.
///
/// It does not know whether the breaker is open: it says that the service is up once after it began, also when another sidecar or
/// an earlier process tripped the breaker. Saying so of a closed breaker does nothing.
package struct OutageWatch: Sendable {
    private let unhealthyAfter: Int
    private let healthyAfter: Int
    /// In a row, up to now.
    package private(set) var failures = 0
    /// In a row, up to now.
    package private(set) var successes = 0
    private var isUpKnown = false

    /// - Parameters:
    ///   - unhealthyAfter: so many bad probes in a row are an outage; less than 1 counts as 1.
    ///   - healthyAfter: so many good probes in a row end it; less than 1 counts as 1.
    package init(unhealthyAfter: Int, healthyAfter: Int) {
        self.unhealthyAfter = max(1, unhealthyAfter)
        self.healthyAfter = max(1, healthyAfter)
    }

    /// Takes in what a probe found.
    /// - Parameter isOpenByOutage: the breaker is open or half-open because of an outage, as far as is known here.
    /// - Returns: what to tell the breaker now; `nil`: nothing. An outage is told again with each further bad probe, also when the
    ///   first ones were another sidecar's: it must not lapse while they are counted anew.
    package mutating func saw(_ finding: ProbeFinding, isOpenByOutage: Bool) -> OutageFinding? {
        switch finding {
        case .unjudged:
            return nil
        case .bad(let reason):
            successes = 0
            failures += 1
            guard failures >= unhealthyAfter || isOpenByOutage else { return nil }
            isUpKnown = false
            return .down(reason: reason.description)
        case .good:
            failures = 0
            successes += 1
            return successes >= healthyAfter && (!isUpKnown || isOpenByOutage) ? .up : nil
        }
    }

    /// The breaker was told. A finding that could not be told is told again when it still holds at the next probe.
    package mutating func told(_ finding: OutageFinding) {
        isUpKnown = finding == .up
    }
}
