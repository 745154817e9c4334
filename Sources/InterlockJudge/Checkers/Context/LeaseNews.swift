/// How an event changes a client's belief in a lease.
enum LeaseNews: Sendable {
    /// The lease was granted. The client believes in it from now on, unless its time is already over.
    case granted(RecordedLease)
    /// The lease ends at another time. `beginsAnew`: the client had stopped believing in it.
    case changed(RecordedLease, beginsAnew: Bool)
    /// The client no longer believes in the lease.
    case ended(RecordedLease)
}
