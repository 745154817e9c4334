internal import InterlockCore

/// Nobody is left waiting for a lock that is free: who is refused after a wait had somebody before him, but for so long at most
/// as the rules give for recovery.
///
/// Free is a lock when no lease of it can be in force: each is over, as long after its last answer as it was asked for, or was
/// released. Not judged when a fault lasted at some time since. Bounded by locks and the leases that are in force.
struct FreeLockChecker: HistoryChecker {
    static let promise = Promise.answers

    private struct Leases: Sendable {
        /// By when each is over at the latest.
        var ends: [LeaseID: Instant] = [:]
        /// The same of all that are not among them, whether or not they were granted.
        var lastEnd = Instant.distantPast
        /// Not looked through before there are so many: of some the time may be over.
        var worthALook = 16

        mutating func hold(_ lease: LeaseID, until end: Instant, at instant: Instant) {
            ends[lease] = end
            guard ends.count >= worthALook else { return }
            for (lease, end) in ends where end <= instant { self.end(lease, at: end) }
            worthALook = max(16, 2 * ends.count)
        }

        mutating func end(_ lease: LeaseID, at instant: Instant) {
            ends[lease] = nil
            lastEnd = max(lastEnd, instant)
        }

        var freeSince: Instant { ends.values.reduce(lastEnd) { max($0, $1) } }
    }

    private let recovery: Int64
    private var locks: [Int: Leases] = [:]

    init(rules: HistoryRules) {
        recovery = rules.recovery
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        guard case .ended(let call, let ending, _) = step.what else { return }
        switch (call.operation, ending) {
        case (.acquire(let lock, _, let ttl, _), .done(.granted(let lease, _, _))), (.renew(let lock, let lease, let ttl), .done):
            locks[lock, default: Leases()].hold(lease, until: step.at.advanced(byMilliseconds: ttl), at: step.at)
        case (.acquire(let lock, _, _, let wait), .refused(.held)):
            guard wait > recovery else { return }
            judge(call, lock, at: step.at, faults: faults, into: &violations)
        case (.acquire(let lock, _, let ttl, _), .failed), (.acquire(let lock, _, let ttl, _), .unknown):
            let end = step.at.advanced(byMilliseconds: ttl)
            locks[lock, default: Leases()].lastEnd = max(locks[lock]?.lastEnd ?? end, end)
        case (.renew(let lock, let lease, let ttl), .failed), (.renew(let lock, let lease, let ttl), .unknown):
            locks[lock, default: Leases()].hold(lease, until: step.at.advanced(byMilliseconds: ttl), at: step.at)
        case (.renew(let lock, let lease, _), .refused), (.release(let lock, let lease), .done),
            (.release(let lock, let lease), .refused):
            locks[lock]?.end(lease, at: step.at)
        default:
            return
        }
    }

    private func judge(_ call: Call, _ lock: Int, at instant: Instant, faults: FaultLog, into violations: inout [Violation]) {
        let freeSince = max(call.invoked, locks[lock]?.freeSince ?? call.invoked)
        guard instant > freeSince.advanced(byMilliseconds: recovery), !faults.touches(.any, since: freeSince) else { return }
        violations.append(
            Violation(
                Self.promise, at: instant,
                """
                lock \(lock): client \(call.client) waited at sidecar \(call.sidecar) and was refused, though nobody can have held it for \
                \(instant.millisecondsRoundedUp(since: freeSince)) ms
                """))
    }
}
