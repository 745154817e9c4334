internal import InterlockCore

/// A lease as its holder knows it.
struct RecordedLease: Sendable {
    var id: LeaseID
    var lock: Int
    var client: Int
    /// The sidecar that last granted the lease to the holder.
    var sidecar: Int
    var mode: LeaseMode
    var fence: Int64
    /// The number of the grant, counted over all locks in the order of the answers.
    var grantNumber: Int
    /// The grant number up to which every grant of this lock is known to have come before this lease.
    var lastEarlierGrant: Int
    /// The time of the request. The grant was not earlier.
    var invoked: Instant
    /// The end of the period in which its client considers itself the holder; `distantPast` if it no longer does.
    var until: Instant

    /// Returns whether the client considers itself the holder at this time.
    func isBelieved(at instant: Instant) -> Bool { until > instant }
}
