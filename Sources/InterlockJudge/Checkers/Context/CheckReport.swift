/// The result of a check.
package struct CheckReport: Codable, Hashable, Sendable {
    /// The number of operations that were checked.
    package var operations: Int
    /// The number of granted leases.
    package var lockGrants: Int
    /// The number of limit decisions, whether granted or refused.
    package var limitDecisions: Int
    /// The number of writes that the guarded resource refused because the lease had ended or a later one had written.
    package var staleWritesRefused: Int
    /// The number of leases that failovers took from their holders.
    package var lostLeaseCount: Int
    /// The first leases that failovers took from their holders, up to the limit of the checker.
    package var lostLeases: [LostLease]
    /// The first violations, up to the limit of the check.
    package var violations: [Violation]
    /// The number of violations, including those not in `violations`.
    package var violationCount: Int

    package init(
        operations: Int = 0, lockGrants: Int = 0, limitDecisions: Int = 0, staleWritesRefused: Int = 0,
        lostLeaseCount: Int = 0, lostLeases: [LostLease] = [],
        violations: [Violation] = [], violationCount: Int = 0
    ) {
        self.operations = operations
        self.lockGrants = lockGrants
        self.limitDecisions = limitDecisions
        self.staleWritesRefused = staleWritesRefused
        self.lostLeaseCount = lostLeaseCount
        self.lostLeases = lostLeases
        self.violations = violations
        self.violationCount = violationCount
    }

    enum CodingKeys: String, CodingKey {
        case operations, violations
        case lockGrants = "lock_cycles"
        case limitDecisions = "limit_decisions"
        case staleWritesRefused = "stale_writes_refused"
        case lostLeaseCount = "leases_lost"
        case lostLeases = "lost_leases"
        case violationCount = "violation_count"
    }
}
