internal import InterlockCore

/// Checks that a resource that compares fences accepts no write of a lease after a write of a later lease, and refuses
/// no client whose lease is valid. Requests and answers determine which lease is later, not the fences.
///
/// The checker judges exclusive leases only: of several valid leases, such as readers', the resource refuses the older.
/// While fences may fall, the checker judges no write; see `FaultLog.fencesMayFall`. Uses O(locks) memory.
struct FencedWriteChecker: HistoryChecker {
    static let invariant = Invariant.fencedWrites

    private struct AcceptedWrites: Sendable {
        /// The grant number up to which every grant is known to have come before a lease that has written.
        var lastEarlierGrant: Int
        /// The lease to which `lastEarlierGrant` belongs.
        var latestLease: LeaseID
        /// The lease with the highest fence that has written.
        var highest: RecordedLease
    }

    private var locks: [Int: AcceptedWrites] = [:]
    /// The number of writes that the resource rightly refused.
    private(set) var staleWritesRefused = 0

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        guard case .wrote(let lease, let lock, let isAccepted) = step.kind else { return }
        guard let lease, lease.mode == .exclusive else {
            if !isAccepted { staleWritesRefused += 1 }
            return
        }
        if isAccepted {
            writeAccepted(lease, lock, at: step.at, faults: faults, into: &violations)
        } else if mustBeAccepted(lease, lock, at: step.at, faults: faults) {
            let highest = locks[lock].map { "; the highest fence was \($0.highest.fence), of lease \($0.highest.id)" } ?? ""
            report(
                at: step.at, into: &violations,
                """
                lock \(lock): a write of lease \(lease.id) of client \(lease.client) with fence \(lease.fence) was refused, \
                although it was valid until \(lease.until.inMilliseconds) ms\(highest)
                """)
        } else {
            staleWritesRefused += 1
        }
    }

    private mutating func writeAccepted(
        _ lease: RecordedLease, _ lock: Int, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard var previous = locks[lock] else {
            locks[lock] = AcceptedWrites(
                lastEarlierGrant: lease.lastEarlierGrant, latestLease: lease.id, highest: lease)
            return
        }
        if lease.grantNumber <= previous.lastEarlierGrant, !faults.fencesMayFall(since: lease.invoked) {
            report(
                at: instant, into: &violations,
                """
                lock \(lock): a stale write of lease \(lease.id) of client \(lease.client) with fence \(lease.fence) \
                was accepted after one of lease \(previous.latestLease), which was granted later
                """)
        }
        if lease.lastEarlierGrant > previous.lastEarlierGrant {
            (previous.lastEarlierGrant, previous.latestLease) = (lease.lastEarlierGrant, lease.id)
        }
        if lease.fence >= previous.highest.fence { previous.highest = lease }
        locks[lock] = previous
    }

    /// Returns whether the resource must accept a write: the lease is valid, and all accepted writes belong to earlier
    /// leases.
    private func mustBeAccepted(_ lease: RecordedLease, _ lock: Int, at instant: Instant, faults: FaultLog) -> Bool {
        guard lease.isBelieved(at: instant) else { return false }
        guard let highest = locks[lock]?.highest else { return true }
        let isLater = highest.grantNumber <= lease.lastEarlierGrant || highest.id == lease.id || highest.fence <= lease.fence
        return isLater && !faults.fencesMayFall(since: highest.invoked)
    }
}
