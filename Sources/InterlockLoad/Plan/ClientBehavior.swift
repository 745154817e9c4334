/// The probabilities of unusual client behavior, for each lock cycle or call.
package struct ClientBehavior: Hashable, Sendable {
    /// The probability that the client renews in the middle of a hold although the lease would have lasted.
    package var renewProbability: Double
    /// The probability that the client never releases, so that the lease expires.
    package var forgetProbability: Double
    /// The probability that the client continues after its lease has ended, and writes with a stale fence.
    package var overstayProbability: Double
    /// The probability that the client closes its connection instead of releasing.
    package var vanishWhileHoldingProbability: Double
    /// The probability that the client closes its connection while it waits for a lock.
    package var vanishWhileWaitingProbability: Double
    /// The probability that the client never reports the outcome of a permitted call.
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
    /// Clients that show each behavior often enough to occur within a minute, but so rarely that expiring leases do not
    /// block the other clients.
    package static let misbehaving = ClientBehavior(
        renewProbability: 0.02, forgetProbability: 0.002, overstayProbability: 0.002, vanishWhileHoldingProbability: 0.001,
        vanishWhileWaitingProbability: 0.002, unreportedProbability: 0.005)
}
