/// The leases of one lock that were valid when the Redis clock jumped. Only Redis knows when they end. Uses O(leases)
/// memory.
struct ClockLeases: Sendable {
    private var leases: Set<LeaseID> = []
    /// Whether there may be further leases, which were granted without an answer.
    private var mayIncludeUnanswered = false

    var isEmpty: Bool { leases.isEmpty && !mayIncludeUnanswered }

    /// Records a jump of the Redis clock.
    /// - Parameters:
    ///   - held: the leases that may be valid.
    ///   - mayIncludeUnanswered: whether some calls have no answer, so that they may have been granted other leases.
    mutating func clockJumped(_ held: some Sequence<LeaseID>, mayIncludeUnanswered: Bool) {
        leases.formUnion(held)
        if mayIncludeUnanswered { self.mayIncludeUnanswered = true }
    }

    /// Removes a lease that has ended.
    mutating func leaseEnded(_ lease: LeaseID) { leases.remove(lease) }

    /// Removes all leases. An exclusive grant to a call that was invoked after the jump proves that none of them
    /// remains.
    mutating func removeAll() { self = ClockLeases() }
}
