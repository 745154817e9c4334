/// How often clients do what programs do that are in trouble: probabilities of each lock cycle or call.
public struct ClientConduct: Hashable, Sendable {
    /// Renews in the middle of a hold although the lease would have lasted.
    public var renews: Double
    /// Never releases: the lease lapses.
    public var forgets: Double
    /// Goes on after its lease has ended, and writes with a fence that is stale by then.
    public var overstays: Double
    /// Closes its connection instead of releasing.
    public var vanishesHolding: Double
    /// Closes its connection while it waits.
    public var vanishesWaiting: Double
    /// Never reports a permit.
    public var leavesUnreported: Double

    public init(
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

    /// Programs that do what they should: for measuring.
    public static let faultless = ClientConduct()
    /// Each of it often enough to be seen in a minute, seldom enough that leases which lapse do not stand in everybody's way.
    public static let troubled = ClientConduct(
        renews: 0.02, forgets: 0.002, overstays: 0.002, vanishesHolding: 0.001, vanishesWaiting: 0.002, leavesUnreported: 0.005)
}
