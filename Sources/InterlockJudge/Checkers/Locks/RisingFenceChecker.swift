internal import InterlockCore

/// Checks that each grant of a lock has a higher fence than all grants that are known to have come before it, and that
/// no two leases have the same fence, whatever their mode.
///
/// A grant is known to have come before another if it was answered before the other was requested. While a client holds
/// the lock exclusively, no other client is granted it. Therefore, if a client still relies on an exclusive lease when
/// its answer arrives, every grant that was answered earlier came before it, unless a fault may have cost exclusivity.
/// An acquire without a certain answer may have been granted. A retry with the same owner then gets the older fence, so
/// the time of the call counts from the first attempt.
///
/// The only exception: Redis lost its data and its clock was set back, even if to the correct time. It applies if the
/// history has both faults. The checker assumes that jumps are shorter than the day for which Redis keeps a fence.
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

    /// The fences of one lock.
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
            guard case .acquire(_, _, _, let waitMilliseconds, _) = call.operation else { return }
            if case .granted(let lease) = change {
                leaseGranted(lease, call, at: step.at, faults: faults, into: &violations)
            }
            if !ending.mayHaveBeenGranted(afterWaiting: waitMilliseconds) { minimumFences[call.client] = nil }
        case .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded, .finished:
            return
        }
    }

    private mutating func leaseGranted(
        _ lease: RecordedLease, _ call: Call, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        let newFence = Fence(number: lease.fence, lease: lease.id, invoked: lease.invoked)
        // The common case needs one lookup.
        guard locks[lease.lock]?.addIfHigher(newFence) != true else { return }
        guard let fences = locks[lease.lock] else {
            locks[lease.lock] = Fences(highest: newFence, recent: [newFence])
            return
        }
        guard !faults.fencesMayFall(since: fences.highest.invoked) else {
            locks[lease.lock] = Fences(highest: newFence, recent: [newFence])
            return
        }
        // Grants answered between the attempts may have come after the grant of the first attempt.
        let isRetried = minimumFences[lease.client]?.isRetried ?? false
        let followsAllGrants = lease.lastEarlierGrant > call.earlierGrantCount && !isRetried
        let duplicate = fences.recent.first {
            $0.number == newFence.number && $0.lease != newFence.lease && !faults.fencesMayFall(since: $0.invoked)
        }
        if let duplicate {
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(newFence.number), like \
                lease \(duplicate.lease)
                """)
        } else if let minimum = followsAllGrants ? fences.highest : minimumFences[lease.client]?.fence,
            newFence.number <= minimum.number,
            minimum.lease != newFence.lease, !faults.fencesMayFall(since: minimum.invoked)
        {
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(newFence.number), but the \
                earlier lease \(minimum.lease) has \(minimum.number)
                """)
        }
        locks[lease.lock]?.add(newFence)
    }
}

extension OperationEnding {
    /// Returns whether an acquire with this ending may still have been granted.
    fileprivate func mayHaveBeenGranted(afterWaiting waitMilliseconds: Int64) -> Bool {
        switch self {
        case .unknown, .failed: true
        case .refused: waitMilliseconds > 0
        case .done: false
        }
    }
}
