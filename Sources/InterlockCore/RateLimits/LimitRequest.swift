/// A request to take from a service's limits, for one or more equal calls.
package struct LimitRequest: Equatable, Sendable {
    /// The allowed cost of one call. The sum of all costs in one queue or one batch fits into 64 bits.
    package static let costRange: ClosedRange<Int64> = 1...1_000_000_000_000

    /// The caller's ID for this request, which the decision repeats.
    package var id: Int
    /// The number of equal calls. Only a request without a deadline may have more than one.
    package var count: Int
    /// The cost of each call, 1 or more.
    package var cost: Int64
    /// The subject (a tenant) for per-subject limits; `nil` if these do not apply.
    package var subject: String?
    /// The deadline of the call's wait for its turn; `nil` if it does not wait.
    package var deadline: Instant?

    package init(id: Int, count: Int = 1, cost: Int64 = 1, subject: String? = nil, deadline: Instant? = nil) {
        self.id = id
        self.count = count
        self.cost = cost
        self.subject = subject
        self.deadline = deadline
    }
}
