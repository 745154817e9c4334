package import InterlockCore

/// One event of a run. A history is a sequence of events, ordered by `at`.
///
/// A client has at most one active operation: its next `ended` belongs to its last `invoked`.
package struct HistoryEvent: Hashable, Sendable, Codable {
    /// The time on the machine's monotonic clock, or on the clock of a simulated world.
    package var at: Instant
    package var kind: Kind

    package enum Kind: Hashable, Sendable, Codable {
        /// A client sends a request to a sidecar (its number in the fleet). Recorded *before* the request leaves.
        case invoked(client: Int, sidecar: Int, Operation)
        /// An operation ended. Recorded *after* the client has read the answer.
        case ended(client: Int, OperationEnding)
        /// A write to the resource that a lock guards, with the writer's fence, and whether the resource accepted it. A
        /// holder may write after its lease has ended; the resource must refuse the write once a later holder has
        /// written.
        case wrote(client: Int, lock: Int, lease: LeaseID, fence: Int64, isAccepted: Bool)
        /// A sidecar's event stream reported a breaker's state, which that sidecar applies from now on. An open breaker
        /// stays open at least until `until`, converted to this history's clock.
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        /// The link between a lease and its client's connection changed. A sidecar renews a linked lease. After the
        /// link ends, the lease lasts for at most its TTL.
        case linked(client: Int, lock: Int, lease: LeaseID, ttlMilliseconds: Int64, LinkChange)
        /// With a state: a sidecar confirmed to an operator that it forces a breaker's state until `until`. Without a
        /// state: no forced state is known to be in effect. Recorded without a state before each request of an
        /// operator, and after a request to end the forced state.
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        /// A fault begins. `fault` is its number in the run.
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        /// A fault ends. Every sidecar must recover within the rules' recovery time.
        case faultEnded(fault: Int)
    }

    package init(at: Instant, _ kind: Kind) {
        self.at = at
        self.kind = kind
    }
}
