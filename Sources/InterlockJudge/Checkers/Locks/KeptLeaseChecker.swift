internal import InterlockCore

/// Checks that no client learns of the loss of a lease while it may still rely on the lease.
///
/// The checker judges answers to the holder: to a renewal, and to the first release. A fault that may cost exclusivity
/// excuses the loss if it was active at any time since the lease was requested. If only a failover explains a loss, the
/// checker counts it and lists it with that failover. The checker does not judge a linked lease after its link has
/// ended, because the sidecar then releases the lease. Nor does it judge a lease that a server of a quorum may have
/// forgotten; see `QuorumCopies`. Uses O(valid leases) memory.
struct KeptLeaseChecker: HistoryChecker {
    static let invariant = Invariant.keptLeases

    private struct Failover: Sendable {
        var number: Int
        var began: Instant
    }

    /// The maximum number of entries in `listedLosses`. The checker only counts the others.
    private static let maximumListedLosses = 100

    private struct TrackedLease: Sendable {
        var lease: RecordedLease
        /// The time when the holder received the grant.
        var since: Instant
    }

    /// The leases that clients rely on, by ID.
    private var leases: [LeaseID: TrackedLease] = [:]
    /// The leases whose release is active, by client.
    private var releasing: [Int: TrackedLease] = [:]
    /// The number of leases that triggers the removal of expired ones.
    private var cleanupThreshold = 64
    private var failover: Failover?
    private var copies = QuorumCopies()
    /// The number of leases that only a failover can have taken from their holders.
    private(set) var lossCount = 0
    /// The first of these leases.
    private(set) var listedLosses: [LostLease] = []

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        defer { copies.observe(step) }
        switch step.kind {
        case .invoked(let call, let leaseChange?):
            if case .release = call.operation, case .ended(let lease) = leaseChange {
                releasing[call.client] = leases[lease.id]
            }
            apply(leaseChange, at: step.at)
        case .ended(let call, let ending, let leaseChange):
            let lost: TrackedLease?
            switch (call.operation, ending) {
            case (.renew(_, let id, _), .refused(.lost)): lost = leases[id]
            case (.release, .refused(.lost)): lost = releasing[call.client]
            default: lost = nil
            }
            if let lost, lost.lease.isBelieved(at: step.at) { judge(lost, at: step.at, faults: faults, into: &violations) }
            if case .release = call.operation { releasing[call.client] = nil }
            if let leaseChange { apply(leaseChange, at: step.at) }
        case .linked(_, let lease, _, let change, _, _) where change != .began: leases[lease] = nil
        case .faultBegan(let number, let kind, _) where kind.mayCause(.lostWrites):
            failover = Failover(number: number, began: step.at)
        default: return
        }
    }

    private mutating func apply(_ leaseChange: LeaseChange, at instant: Instant) {
        switch leaseChange {
        case .granted(let lease):
            leases[lease.id] = TrackedLease(lease: lease, since: instant)
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
        _ held: TrackedLease, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        let lease = held.lease
        let remainingMilliseconds = Double(lease.until.nanoseconds - instant.nanoseconds) / 1e6
        guard faults.wasActive(.lostExclusivity, since: lease.invoked) else {
            guard !copies.mayBeLost(lease.id) else { return }
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): client \(lease.client) lost lease \(lease.id), which had \(remainingMilliseconds) \
                ms left
                """)
            return
        }
        guard faults.wasActive(.lostWrites, since: lease.invoked), !faults.wasActive(.lostLeases, since: lease.invoked),
            let failover
        else { return }
        lossCount += 1
        guard listedLosses.count < Self.maximumListedLosses else { return }
        listedLosses.append(
            LostLease(
                at: instant, lock: lease.lock, lease: lease.id, client: lease.client, fault: failover.number,
                grantedAfterMilliseconds: Double(held.since.nanoseconds - failover.began.nanoseconds) / 1e6,
                remainingMilliseconds: remainingMilliseconds))
    }
}
