/// The probabilities of unusual client behavior, per lock cycle or call.
package struct ClientBehavior: Hashable, Sendable {
    /// The client renews in the middle of a hold although the lease would have lasted.
    package var renews: Double
    /// The client never releases, so the lease expires.
    package var forgets: Double
    /// The client continues after its lease has ended, and writes with a stale fence.
    package var overstays: Double
    /// The client closes its connection instead of releasing.
    package var vanishesHolding: Double
    /// The client closes its connection while it waits.
    package var vanishesWaiting: Double
    /// The client never reports a permit.
    package var leavesUnreported: Double

    package init(
        renews: Double = 0, forgets: Double = 0, overstays: Double = 0, vanishesHolding: Double = 0, vanishesWaiting: Double = 0,
        leavesUnreported: Double = 0
    ) {
        self.renews = renews
        self.forgets = forgets
        self.overstays = overstays
        self.vanishesHolding = vanishesHolding
        self.vanishesWaiting = vanishesWaiting
        self.leavesUnreported = leavesUnreported
    }

    /// Well-behaved clients, for benchmarks.
    package static let wellBehaved = ClientBehavior()
    /// Clients that show each behavior often enough to see it within a minute, but rarely enough that expiring leases
    /// do not block the others.
    package static let misbehaving = ClientBehavior(
        renews: 0.02, forgets: 0.002, overstays: 0.002, vanishesHolding: 0.001, vanishesWaiting: 0.002, leavesUnreported: 0.005)
}
