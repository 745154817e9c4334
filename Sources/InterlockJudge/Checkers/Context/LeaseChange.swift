/// A change of how long a client relies on a lease.
enum LeaseChange: Sendable {
    /// The lease was granted. The client relies on it from now on, unless the lease has already expired.
    case granted(RecordedLease)
    /// The lease ends at another time. `isRevived` is `true` if the client had stopped relying on it and now
    /// does again.
    case changed(RecordedLease, isRevived: Bool)
    /// The client no longer relies on the lease.
    case ended(RecordedLease)
}
