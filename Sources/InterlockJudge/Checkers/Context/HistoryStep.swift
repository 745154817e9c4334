internal import InterlockCore

/// An event with its context, such as the call that ended or the lease that wrote.
struct HistoryStep: Sendable {
    enum Kind: Sendable {
        case invoked(Call, LeaseChange?)
        case ended(Call, OperationEnding, LeaseChange?)
        /// A resource decided on a write. The lease is `nil` if it is no longer remembered.
        case wrote(RecordedLease?, lock: Int, isAccepted: Bool)
        /// A link changed. `sidecar` granted the lease; `nil` if the lease is no longer remembered.
        case linked(lock: Int, lease: LeaseID, ttl: Int64, LinkChange, sidecar: Int?, LeaseChange?)
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        case faultEnded(fault: Int, FaultKind, sidecar: Int?)
        /// The history ends. The calls in `open` have not ended.
        case finished(open: [Call])
    }

    var at: Instant
    var kind: Kind
}
