/// The result of a check.
package struct CheckReport: Codable, Hashable, Sendable {
    /// Operations that were checked.
    package var operations: Int
    /// Granted leases, and limit decisions (granted or refused).
    package var lockCycles: Int
    package var limitDecisions: Int
    /// Writes that the guarded resource refused because a later lease had written.
    package var staleWritesRefused: Int
    /// Leases that failovers took from their holders; the first of them are told.
    package var leasesLost: Int
    package var lostLeases: [LostLease]
    /// The first ones; `violationCount` counts all.
    package var violations: [Violation]
    package var violationCount: Int

    package init(
        operations: Int = 0, lockCycles: Int = 0, limitDecisions: Int = 0, staleWritesRefused: Int = 0,
        leasesLost: Int = 0, lostLeases: [LostLease] = [],
        violations: [Violation] = [], violationCount: Int = 0
    ) {
        self.operations = operations
        self.lockCycles = lockCycles
        self.limitDecisions = limitDecisions
        self.staleWritesRefused = staleWritesRefused
        self.leasesLost = leasesLost
        self.lostLeases = lostLeases
        self.violations = violations
        self.violationCount = violationCount
    }

    enum CodingKeys: String, CodingKey {
        case operations, violations
        case lockCycles = "lock_cycles"
        case limitDecisions = "limit_decisions"
        case staleWritesRefused = "stale_writes_refused"
        case leasesLost = "leases_lost"
        case lostLeases = "lost_leases"
        case violationCount = "violation_count"
    }
}
