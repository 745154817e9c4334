internal import InterlockCore

/// The leases that may be lost if a server of a quorum comes back empty: those that were not renewed twice since the
/// last fault of the quorum. `docs/reference/quorum.md` guarantees nothing for them. Uses O(valid leases)
/// memory.
struct QuorumCopies: Sendable {
    private struct Copies: Sendable {
        var until: Instant
        /// The number of renewals since the last fault of the quorum.
        var renewals = 0
        var mayBeLost = false
    }

    /// The number of renewals after which every server has the lease.
    private static let sufficientRenewals = 2
    /// The time that sidecars may take to reconnect after a fault, in milliseconds.
    private static let reconnectTime: Int64 = 3000

    private var leases: [LeaseID: Copies] = [:]
    private var inFlight = 0
    private var calmSince = Instant.distantPast
    /// The number of leases that triggers the removal of expired ones.
    private var cleanupThreshold = 64

    func mayBeLost(_ lease: LeaseID) -> Bool { leases[lease]?.mayBeLost ?? false }

    mutating func observe(_ step: HistoryStep) {
        switch step.kind {
        // A lease whose release was only requested is kept, because the answer may say that it is lost.
        case .ended(_, _, .ended(let lease)?):
            leases[lease.id] = nil
        case .ended(_, _, .granted(let lease)?):
            leases[lease.id] = Copies(until: lease.until)
            dropEnded(at: step.at)
        case .ended(let call, .done(.renewed), .changed(let lease, _)?):
            leases[lease.id]?.until = lease.until
            guard inFlight == 0, call.invoked >= calmSince else { return }
            leases[lease.id]?.renewals += 1
        case .faultBegan(_, let kind, _) where kind.target == .quorum:
            inFlight += 1
            for (id, copies) in leases {
                if kind.mayCause(.forgottenVotes), copies.renewals < Self.sufficientRenewals { leases[id]?.mayBeLost = true }
                leases[id]?.renewals = 0
            }
        case .faultEnded(_, let kind, _) where kind.target == .quorum:
            inFlight -= 1
            calmSince = step.at.advanced(byMilliseconds: Self.reconnectTime)
            for id in leases.keys { leases[id]?.renewals = 0 }
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
