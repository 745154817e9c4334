/// The probabilities of unusual client behavior, per lock cycle or call.
package struct ClientBehavior: Hashable, Sendable {
    /// The client renews in the middle of a hold although the lease would have lasted.
    package var renewProbability: Double
    /// The client never releases, so the lease expires.
    package var forgetProbability: Double
    /// The client continues after its lease has ended, and writes with a stale fence.
    package var overstayProbability: Double
    /// The client closes its connection instead of releasing.
    package var vanishWhileHoldingProbability: Double
    /// The client closes its connection while it waits.
    package var vanishWhileWaitingProbability: Double
    /// The client never reports a permit.
    package var unreportedProbability: Double

    package init(
        renewProbability: Double = 0, forgetProbability: Double = 0, overstayProbability: Double = 0,
        vanishWhileHoldingProbability: Double = 0, vanishWhileWaitingProbability: Double = 0,
        unreportedProbability: Double = 0
    ) {
        self.renewProbability = renewProbability
        self.forgetProbability = forgetProbability
        self.overstayProbability = overstayProbability
        self.vanishWhileHoldingProbability = vanishWhileHoldingProbability
        self.vanishWhileWaitingProbability = vanishWhileWaitingProbability
        self.unreportedProbability = unreportedProbability
    }

    /// Well-behaved clients, for benchmarks.
    package static let wellBehaved = ClientBehavior()
    /// Clients that show each behavior often enough to see it within a minute, but rarely enough that expiring leases
    /// do not block the others.
    package static let misbehaving = ClientBehavior(
        renewProbability: 0.02, forgetProbability: 0.002, overstayProbability: 0.002, vanishWhileHoldingProbability: 0.001,
        vanishWhileWaitingProbability: 0.002, unreportedProbability: 0.005)
}
