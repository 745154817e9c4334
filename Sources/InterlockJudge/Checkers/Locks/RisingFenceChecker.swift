internal import InterlockCore

/// Every grant of a lock has a higher fence than all that were certainly granted before it, and no two leases have the same
/// one, whatever the mode: members of a group have fences of their own.
///
/// Certainly before are those that were answered before this one was asked for. While somebody has the lock alone, nobody else
/// is granted it: so before an exclusive lease that is still believed in when its answer arrives are all that were answered by
/// then, unless a fault may have cost exclusivity meanwhile. An acquire whose answer said nothing certain may have been
/// granted, and its repetition with the same owner then answers with the older fence: it counts from the first attempt.
///
/// The one exception: Redis was wiped, and its clock was set back, at any time and if only to what it had been before. It is
/// taken to be so when both faults were seen, and jumps are taken to be shorter than the day for which Redis remembers a fence.
///
/// Bounded by locks and clients.
struct RisingFenceChecker: HistoryChecker {
    static let promise = Promise.risingFences

    private struct Fence: Sendable {
        var number: Int64
        var lease: LeaseID
        /// When its grant was asked for.
        var invoked: Instant
    }

    private struct Fences: Sendable {
        /// So many of the last ones are compared with a new one.
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

    /// What was the highest fence of a lock when a client asked for it.
    private struct Floor: Sendable {
        var lock: Int
        var fence: Fence?
        /// An attempt before this one ended in doubt.
        var goesOn = false
    }

    private var locks: [Int: Fences] = [:]
    private var floors: [Int: Floor] = [:]

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .invoked(let call, _):
            guard case .acquire(let lock, _, _, _, _) = call.operation else { return }
            // It goes on from an attempt that ended in doubt.
            if let floor = floors[call.client], floor.lock == lock {
                floors[call.client]?.goesOn = true
                return
            }
            floors[call.client] = Floor(lock: lock, fence: locks[lock]?.highest)
        case .ended(let call, let ending, let news):
            guard case .acquire(_, _, _, let wait, _) = call.operation else { return }
            if case .granted(let lease) = news { granted(lease, call, at: step.at, faults: faults, into: &violations) }
            if !ending.leavesOpenWhetherGranted(afterWaiting: wait) { floors[call.client] = nil }
        case .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded:
            return
        }
    }

    private mutating func granted(
        _ lease: RecordedLease, _ call: Call, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        let new = Fence(number: lease.fence, lease: lease.id, invoked: lease.invoked)
        // Nearly all: with one look.
        guard locks[lease.lock]?.addIfHigher(new) != true else { return }
        guard let known = locks[lease.lock] else {
            locks[lease.lock] = Fences(highest: new, last: [new])
            return
        }
        guard !faults.fencesMayFall(since: known.highest.invoked) else {
            locks[lease.lock] = Fences(highest: new, last: [new])
            return
        }
        // What was answered between the attempts may be later than what the first of them was granted.
        let isAfterAll = lease.certainlyAfter > call.grantsBefore && !(floors[lease.client]?.goesOn ?? false)
        let equal = known.last.first {
            $0.number == new.number && $0.lease != new.lease && !faults.fencesMayFall(since: $0.invoked)
        }
        if let equal {
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    "lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(new.number), as lease \(equal.lease)"
                ))
        } else if let floor = isAfterAll ? known.highest : floors[lease.client]?.fence, new.number <= floor.number,
            floor.lease != new.lease, !faults.fencesMayFall(since: floor.invoked)
        {
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    lock \(lease.lock): lease \(lease.id) of client \(lease.client) has fence \(new.number), and lease \
                    \(floor.lease), which was granted before, \(floor.number)
                    """))
        }
        locks[lease.lock]?.add(new)
    }
}

extension OperationEnding {
    /// Whether an acquire that ended so may have been granted all the same.
    fileprivate func leavesOpenWhetherGranted(afterWaiting wait: Int64) -> Bool {
        switch self {
        case .unknown, .failed: true
        case .refused: wait > 0
        case .done: false
        }
    }
}
