public import InterlockCore

/// One thing that happened in a run. A history is a sequence of these in the order of `at`.
///
/// A client has at most one operation under way: its next `ended` belongs to its last `invoked`.
public struct HistoryEvent: Hashable, Sendable, Codable {
    /// On the monotonic clock that all processes of this machine share; in a simulation on the world's.
    public var at: Instant
    public var what: What

    public enum What: Hashable, Sendable, Codable {
        /// A client asks a sidecar (its number in the fleet) for something. Recorded *before* the request leaves.
        case invoked(client: Int, sidecar: Int, Operation)
        /// Recorded *after* the answer was read.
        case ended(client: Int, OperationEnding)
        /// A write of the resource that a lock guards, with the writer's fence, and whether the resource took it. A lease that
        /// is over may still write: the resource must refuse it once a later grant has written.
        case wrote(client: Int, lock: Int, lease: LeaseID, fence: Int64, isAccepted: Bool)
        /// A sidecar's event stream said how a breaker stands: from now on that sidecar acts on it. `until` is on this history's
        /// clock, as far as it can be told: before it an open breaker stays open by itself.
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        /// The link of a lease to its client's connection has changed. While it stands a sidecar extends the lease; afterwards it
        /// lasts for its length at most.
        case linked(client: Int, lock: Int, lease: LeaseID, ttl: Int64, LinkChange)
        /// An operator was told that the breaker's state is forced until then; without a state: that it no longer is.
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        /// A fault begins. `fault` numbers it within the run.
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        /// What was broken is whole again: everything must have recovered a stated time later.
        case faultEnded(fault: Int)
    }

    public init(at: Instant, _ what: What) {
        self.at = at
        self.what = what
    }
}

/// What becomes of the link between a lease and its client's connection.
public enum LinkChange: String, Hashable, Sendable, Codable {
    case began
    /// The client has closed the connection: it does not believe in the lease any more.
    case left
    /// The connection was lost, or the client was told that the lease is.
    case lost
}
