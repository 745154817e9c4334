internal import InterlockCore

/// An event of a history with what it belongs to: every end has its beginning, and every write its lease.
struct HistoryStep: Sendable {
    enum What: Sendable {
        case invoked(Call, LeaseNews?)
        case ended(Call, OperationEnding, LeaseNews?)
        /// `nil`: the lease was granted so long ago that it is forgotten.
        case wrote(Lease?, lock: Int, isAccepted: Bool)
        /// `sidecar`: that granted the lease; `nil`: it is forgotten.
        case linked(lock: Int, lease: LeaseID, ttl: Int64, LinkChange, sidecar: Int?, LeaseNews?)
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        case faultEnded(fault: Int, FaultKind, sidecar: Int?)
    }

    var at: Instant
    var what: What
}
