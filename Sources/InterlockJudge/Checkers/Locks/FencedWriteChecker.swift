internal import InterlockCore

/// Checks that a resource that compares fences accepts no write of a lease after a write of a later lease, and refuses
/// no client whose lease is valid. Requests and answers determine which lease is later, not the fences.
///
/// The checker judges exclusive leases only: of several valid leases, such as readers', the resource refuses the older.
/// Nothing is judged while fences may fall; see `FaultLog.fencesMayFall`. Uses O(locks) memory.
struct FencedWriteChecker: HistoryChecker {
    static let invariant = Invariant.fencedWrites

    private struct Accepted: Sendable {
        /// The grant number up to which every grant is known to have come before a lease that has written.
        var lastEarlierGrant: Int
        var by: LeaseID
        /// The lease with the highest fence that has written.
        var highest: RecordedLease
    }

    private var locks: [Int: Accepted] = [:]
    /// The number of refused writes that were not violations.
    private(set) var staleWritesRefused = 0

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        guard case .wrote(let lease, let lock, let isAccepted) = step.kind else { return }
        guard let lease, lease.mode == .exclusive else {
            if !isAccepted { staleWritesRefused += 1 }
            return
        }
        if isAccepted {
            accepted(lease, lock, at: step.at, faults: faults, into: &violations)
        } else if isGood(lease, lock, at: step.at, faults: faults) {
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

    private mutating func accepted(
        _ lease: RecordedLease, _ lock: Int, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard var previous = locks[lock] else {
            locks[lock] = Accepted(lastEarlierGrant: lease.lastEarlierGrant, by: lease.id, highest: lease)
            return
        }
        if lease.grantNumber <= previous.lastEarlierGrant, !faults.fencesMayFall(since: lease.invoked) {
            report(
                at: instant, into: &violations,
                """
                lock \(lock): a stale write of lease \(lease.id) of client \(lease.client) with fence \(lease.fence) was accepted \
                after one of lease \(previous.by), which was granted later
                """)
        }
        if lease.lastEarlierGrant > previous.lastEarlierGrant {
            (previous.lastEarlierGrant, previous.by) = (lease.lastEarlierGrant, lease.id)
        }
        if lease.fence >= previous.highest.fence { previous.highest = lease }
        locks[lock] = previous
    }

    /// Returns whether the resource had no reason to refuse: the lease is valid, and all accepted writes belong to
    /// earlier leases.
    private func isGood(_ lease: RecordedLease, _ lock: Int, at instant: Instant, faults: FaultLog) -> Bool {
        guard lease.isBelieved(at: instant) else { return false }
        guard let highest = locks[lock]?.highest else { return true }
        let isLater = highest.grantNumber <= lease.lastEarlierGrant || highest.id == lease.id || highest.fence <= lease.fence
        return isLater && !faults.fencesMayFall(since: highest.invoked)
    }
}
