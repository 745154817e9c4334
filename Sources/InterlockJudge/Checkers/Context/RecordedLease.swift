internal import InterlockCore

/// A lease as its holder knows it.
struct RecordedLease: Sendable {
    var id: LeaseID
    var lock: Int
    var client: Int
    /// The sidecar that granted or extended it last.
    var sidecar: Int
    var mode: LeaseMode
    var fence: Int64
    /// The position among the grants of all locks, by the time of the answers.
    var order: Int
    /// Every grant of this lock up to this position certainly came before it.
    var certainlyAfter: Int
    /// When it was asked for. It was not granted earlier.
    var invoked: Instant
    /// The time until which its holder believes in the lease; `distantPast` if it no longer does.
    var until: Instant

    func isBelieved(at instant: Instant) -> Bool { until > instant }
}
