/// A change of a client's belief in a lease.
enum LeaseChange: Sendable {
    /// The lease was granted. The client believes in it from now on, unless the lease has already expired.
    case granted(RecordedLease)
    /// The lease ends at another time. `isRevived` is `true` if the client had stopped believing in it and now does
    /// again.
    case changed(RecordedLease, isRevived: Bool)
    /// The client no longer believes in the lease.
    case ended(RecordedLease)
}
