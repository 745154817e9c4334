internal import InterlockCore

/// An event with its context, such as the call that ended or the lease that wrote.
struct HistoryStep: Sendable {
    enum Kind: Sendable {
        case invoked(Call, LeaseChange?)
        case ended(Call, OperationEnding, LeaseChange?)
        /// A resource accepted or refused a write. The lease is `nil` if `LeaseBook` no longer remembers it.
        case wrote(RecordedLease?, lock: Int, isAccepted: Bool)
        /// A link changed. `sidecar` is the one that granted the lease; `nil` if `LeaseBook` no longer remembers the
        /// lease.
        case linked(lock: Int, lease: LeaseID, ttlMilliseconds: Int64, LinkChange, sidecar: Int?, LeaseChange?)
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
