/// What the checkers say.
public struct CheckReport: Codable, Hashable, Sendable {
    /// Operations that were checked.
    public var operations: Int
    /// Lock grants, and limit decisions (granted or refused).
    public var lockCycles: Int
    public var limitDecisions: Int
    /// Writes that the guarded resource refused because a later grant had written.
    public var staleWritesRefused: Int
    /// The first of them; see `violationCount`.
    public var violations: [Violation]
    public var violationCount: Int

    public init(
        operations: Int = 0, lockCycles: Int = 0, limitDecisions: Int = 0, staleWritesRefused: Int = 0,
        violations: [Violation] = [], violationCount: Int = 0
    ) {
        self.operations = operations
        self.lockCycles = lockCycles
        self.limitDecisions = limitDecisions
        self.staleWritesRefused = staleWritesRefused
        self.violations = violations
        self.violationCount = violationCount
    }

    enum CodingKeys: String, CodingKey {
        case operations, violations
        case lockCycles = "lock_cycles"
        case limitDecisions = "limit_decisions"
        case staleWritesRefused = "stale_writes_refused"
        case violationCount = "violation_count"
    }
}
