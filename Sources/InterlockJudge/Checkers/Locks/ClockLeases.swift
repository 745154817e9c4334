/// The leases of one lock that were valid when Redis' clock jumped. Only Redis knows when they end. Bounded by those leases.
struct ClockLeases: Sendable {
    private var leases: Set<LeaseID> = []
    /// There may be more leases that no answer told of.
    private var mayBeMore = false

    var isEmpty: Bool { leases.isEmpty && !mayBeMore }

    /// - Parameter mayBeMore: calls were under way, or some had no answer.
    mutating func clockJumped(_ held: some Sequence<LeaseID>, mayBeMore: Bool) {
        leases.formUnion(held)
        if mayBeMore { self.mayBeMore = true }
    }

    mutating func ended(_ lease: LeaseID) { leases.remove(lease) }

    /// A client that asked after the jump got the lock alone, so there is no other lease.
    mutating func removeAll() { self = ClockLeases() }
}
