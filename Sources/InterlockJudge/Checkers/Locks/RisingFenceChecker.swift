internal import InterlockCore

/// Checks that each grant of a lock has a higher fence than all grants that are known to have come before it, and that
/// no two leases have the same fence, whatever their mode.
///
/// A grant is known to have come before another if it was answered before the other was requested. While a client holds
/// the lock exclusively, no other client is granted it. Therefore, if a client still relies on an exclusive lease when
/// its answer arrives, every grant that was answered earlier came before it, unless a fault may have cost exclusivity.
/// An acquire without a certain answer may have been granted; a retry with the same owner then gets the older fence, so
/// its time counts from the first attempt.
///
/// The only exception is a Redis that lost its data and whose clock was set back, even to the correct time. It applies
/// if the history has both faults. Jumps are assumed to be shorter than the day for which Redis keeps a fence.
///
/// Uses O(locks + clients) memory.
struct RisingFenceChecker: HistoryChecker {
    static let invariant = Invariant.risingFences

    private struct Fence: Sendable {
        var number: Int64
        var lease: LeaseID
        /// The time of the request for the grant.
        var invoked: Instant
    }

    private struct Fences: Sendable {
        /// The number of recent fences that a new one is compared with.
        private static let maximumRecent = 8

        var highest: Fence
        var recent: [Fence]

        mutating func add(_ fence: Fence) {
            if recent.count == Self.maximumRecent { recent.removeFirst() }
            recent.append(fence)
        }

        mutating func addIfHigher(_ fence: Fence) -> Bool {
            guard fence.number > highest.number else { return false }
            highest = fence
            add(fence)
            return true
        }
    }

    /// The fence that a client's grant must exceed: the highest one of the lock when the client first tried to acquire
    /// it.
    private struct MinimumFence: Sendable {
        var lock: Int
        var fence: Fence?
        /// Whether a retry followed an attempt without a certain answer.
        var isRetried = false
    }

    private var locks: [Int: Fences] = [:]
    private var minimumFences: [Int: MinimumFence] = [:]

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            guard case .acquire(let lock, _, _, _, _) = call.operation else { return }
            // The call retries an attempt without a certain answer.
            if let minimum = minimumFences[call.client], minimum.lock == lock {
                minimumFences[call.client]?.isRetried = true
                return
            }
            minimumFences[call.client] = MinimumFence(lock: lock, fence: locks[lock]?.highest)
        case .ended(let call, let ending, let change):
            guard case .acquire(_, _, _, let wait, _) = call.operation else { return }
            if case .granted(let lease) = change { granted(lease, call, at: step.at, faults: faults, into: &violations) }
            if !ending.mayHaveBeenGranted(afterWaiting: wait) { minimumFences[call.client] = nil }
        case .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded, .finished:
            return
        }
    }

    private mutating func granted(
        _ lease: RecordedLease, _ call: Call, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        let new = Fence(number: lease.fence, lease: lease.id, invoked: lease.invoked)
        // The common case needs one lookup.
        guard locks[lease.lock]?.addIfHigher(new) != true else { return }
        guard let fences = locks[lease.lock] else {
            locks[lease.lock] = Fences(highest: new, recent: [new])
            return
        }
        guard !faults.fencesMayFall(since: fences.highest.invoked) else {
            locks[lease.lock] = Fences(highest: new, recent: [new])
            return
        }
        // Grants answered between the attempts may have come after the grant of the first attempt.
        let followsAllGrants = lease.lastEarlierGrant > call.grantsBefore && !(minimumFences[lease.client]?.isRetried ?? false)
        let equal = fences.recent.first {
            $0.number == new.number && $0.lease != new.lease && !faults.fencesMayFall(since: $0.invoked)
        }
        if let equal {
            report(
                at: instant, into: &violations,
                "lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(new.number), like lease \(equal.lease)"
            )
        } else if let minimum = followsAllGrants ? fences.highest : minimumFences[lease.client]?.fence,
            new.number <= minimum.number,
            minimum.lease != new.lease, !faults.fencesMayFall(since: minimum.invoked)
        {
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(new.number), but the \
                earlier lease \(minimum.lease) has \(minimum.number)
                """)
        }
        locks[lease.lock]?.add(new)
    }
}

extension OperationEnding {
    /// Returns whether an acquire with this ending may still have been granted.
    fileprivate func mayHaveBeenGranted(afterWaiting wait: Int64) -> Bool {
        switch self {
        case .unknown, .failed: true
        case .refused: wait > 0
        case .done: false
        }
    }
}
