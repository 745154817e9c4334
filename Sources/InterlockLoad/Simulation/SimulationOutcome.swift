/// What a simulated run found.
public struct SimulationOutcome: Sendable {
    /// The same seed, steps, mutant and parties: the same run.
    public var seed: UInt64
    /// Events that happened.
    public var steps: Int
    /// Operations that clients made.
    public var operations: Int
    /// Leases that were granted.
    public var grants: Int
    public var faults: Int
    /// How long the run was for those who were in it, in ms.
    public var duration: Int64
    public var check: CheckReport
    /// Of the whole history: a replay has the same.
    public var digest: UInt64

    public init(
        seed: UInt64, steps: Int, operations: Int, grants: Int, faults: Int, duration: Int64, check: CheckReport, digest: UInt64
    ) {
        self.seed = seed
        self.steps = steps
        self.operations = operations
        self.grants = grants
        self.faults = faults
        self.duration = duration
        self.check = check
        self.digest = digest
    }
}
