internal import InterlockCore

/// The leases that a server of a quorum may cost when it comes back empty: those that were not renewed twice since the last fault of
/// the quorum. `docs/reference/quorum.md` promises nothing for them. Bounded by believed leases.
struct QuorumCopies: Sendable {
    private struct Copies: Sendable {
        var until: Instant
        /// Since the last fault of the quorum.
        var renewals = 0
        var mayBeLost = false
    }

    /// How often a lease must be renewed for every server to have it.
    private static let enough = 2
    /// How long sidecars may take to connect again after a fault, in ms.
    private static let connecting: Int64 = 3000

    private var leases: [LeaseID: Copies] = [:]
    private var underWay = 0
    private var calmSince = Instant.distantPast
    /// Ended leases are dropped when there are this many.
    private var worthALook = 64

    func mayBeLost(_ lease: LeaseID) -> Bool { leases[lease]?.mayBeLost ?? false }

    mutating func observe(_ step: HistoryStep) {
        switch step.what {
        // Not when its release is asked for: the answer may say that the lease is lost.
        case .ended(_, _, .ended(let lease)?):
            leases[lease.id] = nil
        case .ended(_, _, .granted(let lease)?):
            leases[lease.id] = Copies(until: lease.until)
            dropEnded(at: step.at)
        case .ended(let call, .done(.renewed), .changed(let lease, _)?):
            leases[lease.id]?.until = lease.until
            guard underWay == 0, call.invoked >= calmSince else { return }
            leases[lease.id]?.renewals += 1
        case .faultBegan(_, let kind, _) where kind.target == .quorum:
            underWay += 1
            for (id, copies) in leases {
                if kind.mayCause(.forgottenVotes), copies.renewals < Self.enough { leases[id]?.mayBeLost = true }
                leases[id]?.renewals = 0
            }
        case .faultEnded(_, let kind, _) where kind.target == .quorum:
            underWay -= 1
            calmSince = step.at.advanced(byMilliseconds: Self.connecting)
            for id in leases.keys { leases[id]?.renewals = 0 }
        default:
            return
        }
    }

    private mutating func dropEnded(at instant: Instant) {
        guard leases.count >= worthALook else { return }
        leases = leases.filter { $0.value.until > instant }
        worthALook = max(64, 2 * leases.count)
    }
}
