internal import InterlockCore

/// Checks that no client learns of the loss of a lease while it may still rely on the lease.
///
/// The checker judges answers to the holder: to a renewal, and to the first release. A fault that may cost exclusivity
/// excuses the loss if it was active at any time since the lease was requested. Losses that only a failover explains
/// are counted and listed with that failover. Leases that were linked are not judged after the link has ended, because
/// then the sidecar releases them. Leases that a server of a quorum may have forgotten are not judged either; see
/// `QuorumCopies`. Uses O(valid leases) memory.
struct KeptLeaseChecker: HistoryChecker {
    static let invariant = Invariant.keptLeases

    private struct Failover: Sendable {
        var number: Int
        var began: Instant
    }

    /// The maximum number of listed losses. Further ones are only counted.
    private static let listedLosses = 100

    private struct Held: Sendable {
        var lease: RecordedLease
        /// The time when the holder received the grant.
        var since: Instant
    }

    private var leases: [LeaseID: Held] = [:]
    /// The leases whose release is active, by client.
    private var releasing: [Int: Held] = [:]
    /// The number of leases that triggers the removal of expired ones.
    private var cleanupThreshold = 64
    private var failover: Failover?
    private var copies = QuorumCopies()
    private(set) var losses = 0
    private(set) var reported: [LostLease] = []

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        defer { copies.observe(step) }
        switch step.kind {
        case .invoked(let call, let update?):
            if case .release = call.operation, case .ended(let lease) = update { releasing[call.client] = leases[lease.id] }
            follow(update, at: step.at)
        case .ended(let call, let ending, let update):
            let lost: Held?
            switch (call.operation, ending) {
            case (.renew(_, let id, _), .refused(.lost)): lost = leases[id]
            case (.release, .refused(.lost)): lost = releasing[call.client]
            default: lost = nil
            }
            if let lost, lost.lease.isBelieved(at: step.at) { judge(lost, at: step.at, faults: faults, into: &violations) }
            if case .release = call.operation { releasing[call.client] = nil }
            if let update { follow(update, at: step.at) }
        case .linked(_, let lease, _, let change, _, _) where change != .began: leases[lease] = nil
        case .faultBegan(let number, let kind, _) where kind.mayCause(.lostWrites):
            failover = Failover(number: number, began: step.at)
        default: return
        }
    }

    private mutating func follow(_ update: LeaseChange, at instant: Instant) {
        switch update {
        case .granted(let lease):
            leases[lease.id] = Held(lease: lease, since: instant)
            dropEnded(at: instant)
        case .changed(let lease, _): leases[lease.id]?.lease = lease
        case .ended(let lease): leases[lease.id] = nil
        }
    }

    private mutating func dropEnded(at instant: Instant) {
        guard leases.count >= cleanupThreshold else { return }
        leases = leases.filter { $0.value.lease.isBelieved(at: instant) }
        cleanupThreshold = max(64, 2 * leases.count)
    }

    private mutating func judge(
        _ held: Held, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        let lease = held.lease
        let remainingValidity = Double(lease.until.nanoseconds - instant.nanoseconds) / 1e6
        guard faults.wasActive(.lostExclusivity, since: lease.invoked) else {
            guard !copies.mayBeLost(lease.id) else { return }
            report(
                at: instant, into: &violations,
                "lock \(lease.lock): client \(lease.client) lost lease \(lease.id), which had \(remainingValidity) ms left")
            return
        }
        guard faults.wasActive(.lostWrites, since: lease.invoked), !faults.wasActive(.lostLeases, since: lease.invoked),
            let failover
        else { return }
        losses += 1
        guard reported.count < Self.listedLosses else { return }
        reported.append(
            LostLease(
                at: instant, lock: lease.lock, lease: lease.id, client: lease.client, fault: failover.number,
                grantedAfter: Double(held.since.nanoseconds - failover.began.nanoseconds) / 1e6,
                remainingValidity: remainingValidity))
    }
}
