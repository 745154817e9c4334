internal import InterlockCore

/// An event together with what it belongs to: the call that ended, the lease that wrote.
struct HistoryStep: Sendable {
    enum What: Sendable {
        case invoked(Call, LeaseNews?)
        case ended(Call, OperationEnding, LeaseNews?)
        /// The lease is `nil` if it was granted too long ago to be remembered.
        case wrote(RecordedLease?, lock: Int, isAccepted: Bool)
        /// `sidecar` granted the lease; `nil` if the lease is no longer remembered.
        case linked(lock: Int, lease: LeaseID, ttl: Int64, LinkChange, sidecar: Int?, LeaseNews?)
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        case faultEnded(fault: Int, FaultKind, sidecar: Int?)
        /// The history ends. These calls have not ended.
        case finished(open: [Call])
    }

    var at: Instant
    var what: What
}
