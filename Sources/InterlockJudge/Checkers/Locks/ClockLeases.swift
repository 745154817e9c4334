/// The leases of one lock that were valid when the Redis clock jumped, after which only Redis knows when they end.
/// Uses O(leases) memory.
struct ClockLeases: Sendable {
    private var leases: Set<LeaseID> = []
    /// Whether there may be further leases, which were granted without an answer.
    private var mayIncludeUnanswered = false

    var isEmpty: Bool { leases.isEmpty && !mayIncludeUnanswered }

    /// - Parameter mayIncludeUnanswered: whether calls were active, or some had no answer.
    mutating func clockJumped(_ held: some Sequence<LeaseID>, mayIncludeUnanswered: Bool) {
        leases.formUnion(held)
        if mayIncludeUnanswered { self.mayIncludeUnanswered = true }
    }

    mutating func ended(_ lease: LeaseID) { leases.remove(lease) }

    /// Removes all leases. Call after an exclusive grant to a call that was invoked after the jump, which proves that
    /// no other lease remains.
    mutating func removeAll() { self = ClockLeases() }
}
