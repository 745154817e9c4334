internal import InterlockCore

/// No two leases of a lock are believed in at once, unless both are shared, or both are places of a semaphore and there are no
/// more of them than places.
///
/// Beliefs are those of `LeaseBook`. An overlap is excused when a fault that may cost exclusivity lasted at some time between
/// the request for the elder of the two leases and the overlap.
///
/// Bounded by locks and the leases that are believed in.
struct ExclusionChecker: HistoryChecker {
    static let promise = Promise.exclusion

    private var locks: [Int: LockHolders] = [:]

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .invoked(_, let news?), .ended(_, _, let news?), .linked(_, _, _, _, _, let news?):
            switch news {
            case .granted(let lease):
                began(lease, at: step.at, faults: faults, into: &violations)
            case .changed(let lease, let beginsAnew):
                if beginsAnew {
                    began(lease, at: step.at, faults: faults, into: &violations)
                } else {
                    locks[lease.lock]?.change(lease)
                }
            case .ended(let lease):
                locks[lease.lock]?.remove(lease)
            }
        case .invoked, .ended, .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded:
            return
        }
    }

    /// From now on the lease is believed in: whoever else is meanwhile, overlaps with it.
    private mutating func began(_ lease: Lease, at instant: Instant, faults: FaultLog, into violations: inout [Violation]) {
        guard lease.isBelieved(at: instant) else { return }
        let new = LockHolders.Holder(lease)
        let conflict = locks[lease.lock, default: LockHolders()].add(new, lease.mode, at: instant)
        for other in conflict.others {
            guard !faults.touches(.lostExclusivity, since: min(other.invoked, new.invoked)) else { continue }
            let shared = Double(min(other.until, new.until).nanoseconds - instant.nanoseconds) / 1e6
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    lock \(lease.lock): lease \(new.lease) of client \(new.client) is held while lease \(other.lease) of client \
                    \(other.client) has \(shared) ms left
                    """))
        }
        if let crowd = conflict.crowd, !faults.touches(.lostExclusivity, since: crowd.eldest) {
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    lock \(lease.lock): with lease \(new.lease) of client \(new.client) it has \(crowd.holders) holders at once, and \
                    \(crowd.places) places
                    """))
        }
    }
}
