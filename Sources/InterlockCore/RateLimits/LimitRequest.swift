/// A call that asks for its share of a service's limits.
package struct LimitRequest: Equatable, Sendable {
    /// What one call may cost: the costs of all calls that can wait or travel together fit into 64 bits.
    package static let costs: ClosedRange<Int64> = 1...1_000_000_000_000

    /// The caller's own mark; comes back with the answer.
    package var id: Int
    /// For how many equal calls it stands; more than one only without a deadline.
    package var count: Int
    /// How much each call takes, 1 or more.
    package var cost: Int64
    /// Whom it counts for in the per-subject limits; `nil`: they do not bind it.
    package var subject: String?
    /// Until when it is willing to wait for its turn; `nil`: not at all.
    package var deadline: Instant?

    package init(id: Int, count: Int = 1, cost: Int64 = 1, subject: String? = nil, deadline: Instant? = nil) {
        self.id = id
        self.count = count
        self.cost = cost
        self.subject = subject
        self.deadline = deadline
    }
}
