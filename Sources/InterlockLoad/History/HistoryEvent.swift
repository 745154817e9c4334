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
