internal import InterlockCore

/// A lease as its holder knows it.
struct Lease: Sendable {
    var id: LeaseID
    var lock: Int
    var client: Int
    /// That granted it last.
    var sidecar: Int
    var mode: LeaseMode
    var fence: Int64
    /// Its place among the grants of all locks, by their answers.
    var order: Int
    /// Grants of its lock up to this place were certainly made before it.
    var certainlyAfter: Int
    /// When it was asked for: it was not granted before.
    var invoked: Instant
    /// The holder believes in it until then; `distantPast`: no longer.
    var until: Instant

    func isBelieved(at instant: Instant) -> Bool { until > instant }
}

/// What an event changed in what a client believes of a lease.
enum LeaseNews: Sendable {
    /// It was granted: the client believes in it from now on, if its time is not over already.
    case granted(Lease)
    /// It ends at another time. `beginsAnew`: the client did not believe in it any more, and does again.
    case changed(Lease, beginsAnew: Bool)
    /// The client does not believe in it any more.
    case ended(Lease)
}
