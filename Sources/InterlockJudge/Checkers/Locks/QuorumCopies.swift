internal import InterlockCore

/// The leases that may be lost if a server of a quorum comes back empty: those that were not renewed twice since the
/// last fault of the quorum. `docs/reference/quorum.md` gives no guarantee for them. Uses O(valid leases) memory.
struct QuorumCopies: Sendable {
    private struct Copies: Sendable {
        var until: Instant
        /// The number of renewals since the last fault of the quorum.
        var renewalCount = 0
        var mayBeLost = false
    }

    /// The number of renewals after which every server has the lease.
    private static let sufficientRenewalCount = 2
    /// The time that sidecars may take to reconnect after a fault, in milliseconds.
    private static let reconnectMilliseconds: Int64 = 3000

    private var leases: [LeaseID: Copies] = [:]
    private var activeFaultCount = 0
    /// The time from which renewals count: the sidecars have reconnected after the last fault.
    private var calmSince = Instant.distantPast
    /// The number of leases that triggers the removal of expired ones.
    private var cleanupThreshold = 64

    func mayBeLost(_ lease: LeaseID) -> Bool { leases[lease]?.mayBeLost ?? false }

    mutating func observe(_ step: HistoryStep) {
        switch step.kind {
        // A requested release does not remove the lease, because the answer may say that the lease is lost.
        case .ended(_, _, .ended(let lease)?):
            leases[lease.id] = nil
        case .ended(_, _, .granted(let lease)?):
            leases[lease.id] = Copies(until: lease.until)
            dropEnded(at: step.at)
        case .ended(let call, .done(.renewed), .changed(let lease, _)?):
            leases[lease.id]?.until = lease.until
            guard activeFaultCount == 0, call.invoked >= calmSince else { return }
            leases[lease.id]?.renewalCount += 1
        case .faultBegan(_, let kind, _) where kind.target == .quorum:
            activeFaultCount += 1
            for (id, copies) in leases {
                if kind.mayCause(.forgottenVotes), copies.renewalCount < Self.sufficientRenewalCount {
                    leases[id]?.mayBeLost = true
                }
                leases[id]?.renewalCount = 0
            }
        case .faultEnded(_, let kind, _) where kind.target == .quorum:
            activeFaultCount -= 1
            calmSince = step.at.advanced(byMilliseconds: Self.reconnectMilliseconds)
            for id in leases.keys { leases[id]?.renewalCount = 0 }
        default:
            return
        }
    }

    private mutating func dropEnded(at instant: Instant) {
        guard leases.count >= cleanupThreshold else { return }
        leases = leases.filter { $0.value.until > instant }
        cleanupThreshold = max(64, 2 * leases.count)
    }
}
