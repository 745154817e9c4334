internal import InterlockCore

/// Each grant of a lock has a higher fence than all grants that certainly came before it, and no two leases have the
/// same fence, whatever their mode.
///
/// A grant certainly came before another if it was answered before the other was requested. While a client holds the
/// lock exclusively, no other client is granted it. So every grant that was answered earlier came before an exclusive
/// lease that is still believed in when its answer arrives, unless a fault may have cost exclusivity. An acquire
/// without a certain answer may have been granted; a retry with the same owner then gets the older fence, so its time
/// counts from the first attempt.
///
/// The only exception is a Redis that lost its data and whose clock was set back, even to the correct time. It applies
/// if the history has both faults. Jumps are assumed to be shorter than the day for which Redis keeps a fence.
///
/// Memory is bounded by locks and clients.
struct RisingFenceChecker: HistoryChecker {
    static let promise = Promise.risingFences

    private struct Fence: Sendable {
        var number: Int64
        var lease: LeaseID
        /// The time at which the grant was requested.
        var invoked: Instant
    }

    private struct Fences: Sendable {
        /// The number of recent fences that a new one is compared with.
        private static let remembered = 8

        var highest: Fence
        var last: [Fence]

        mutating func add(_ fence: Fence) {
            if last.count == Self.remembered { last.removeFirst() }
            last.append(fence)
        }

        mutating func addIfHigher(_ fence: Fence) -> Bool {
            guard fence.number > highest.number else { return false }
            highest = fence
            add(fence)
            return true
        }
    }

    /// The highest fence of a lock at the time of a client's first attempt to acquire it.
    private struct Floor: Sendable {
        var lock: Int
        var fence: Fence?
        /// Whether a retry followed an attempt without a certain answer.
        var continuesTurn = false
    }

    private var locks: [Int: Fences] = [:]
    private var floors: [Int: Floor] = [:]

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .invoked(let call, _):
            guard case .acquire(let lock, _, _, _, _) = call.operation else { return }
            // The call retries an attempt without a certain answer.
            if let floor = floors[call.client], floor.lock == lock {
                floors[call.client]?.continuesTurn = true
                return
            }
            floors[call.client] = Floor(lock: lock, fence: locks[lock]?.highest)
        case .ended(let call, let ending, let news):
            guard case .acquire(_, _, _, let wait, _) = call.operation else { return }
            if case .granted(let lease) = news { granted(lease, call, at: step.at, faults: faults, into: &violations) }
            if !ending.leavesOpenWhetherGranted(afterWaiting: wait) { floors[call.client] = nil }
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
        guard let known = locks[lease.lock] else {
            locks[lease.lock] = Fences(highest: new, last: [new])
            return
        }
        guard !faults.fencesMayFall(since: known.highest.invoked) else {
            locks[lease.lock] = Fences(highest: new, last: [new])
            return
        }
        // Grants answered between the attempts may have come after the grant of the first attempt.
        let isAfterAll = lease.certainlyAfter > call.grantsBefore && !(floors[lease.client]?.continuesTurn ?? false)
        let equal = known.last.first {
            $0.number == new.number && $0.lease != new.lease && !faults.fencesMayFall(since: $0.invoked)
        }
        if let equal {
            report(
                at: instant, into: &violations,
                "lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(new.number), like lease \(equal.lease)"
            )
        } else if let floor = isAfterAll ? known.highest : floors[lease.client]?.fence, new.number <= floor.number,
            floor.lease != new.lease, !faults.fencesMayFall(since: floor.invoked)
        {
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(new.number), but the \
                earlier lease \(floor.lease) has \(floor.number)
                """)
        }
        locks[lease.lock]?.add(new)
    }
}

extension OperationEnding {
    /// Returns whether an acquire with this ending may still have been granted.
    fileprivate func leavesOpenWhetherGranted(afterWaiting wait: Int64) -> Bool {
        switch self {
        case .unknown, .failed: true
        case .refused: wait > 0
        case .done: false
        }
    }
}
