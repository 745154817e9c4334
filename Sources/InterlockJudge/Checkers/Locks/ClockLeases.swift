/// The leases of one lock of which only Redis knows the end: they were in force when its clock jumped, and last for longer or
/// shorter than anybody can tell. Bounded by the leases that are in force then.
struct ClockLeases: Sendable {
    private var leases: Set<LeaseID> = []
    /// There may be more of them that nobody was told of.
    private var mayBeMore = false

    var isEmpty: Bool { leases.isEmpty && !mayBeMore }

    /// - Parameter mayBeMore: there were calls under way, or some had no answer.
    mutating func clockJumped(_ held: some Sequence<LeaseID>, mayBeMore: Bool) {
        leases.formUnion(held)
        if mayBeMore { self.mayBeMore = true }
    }

    mutating func ended(_ lease: LeaseID) { leases.remove(lease) }

    /// Somebody has the lock alone who asked for it after the jump: there is no other lease.
    mutating func removeAll() { self = ClockLeases() }
}
