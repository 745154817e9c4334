internal import InterlockCore

/// Checks that a free lock is granted immediately to one of its callers: not all are refused as held or unavailable.
///
/// A refusal is suspect if the call did not wait, no client can have held the lock during the call, and no client
/// waited for it within the last second. An overlapping call for the same lock excuses the refusal if that call waits,
/// was granted or may have been granted. A fault that disturbs locks also excuses the refusal, because a ticket may
/// stay in the queue. So does a jump of the Redis clock, as in `FreeLockChecker`. The checker judges exclusive calls
/// only. Uses O(locks + active calls) memory.
struct FalseRefusalChecker: HistoryChecker {
    static let invariant = Invariant.freeLocks

    /// How long the ticket of a sidecar that stopped waiting may stay in a queue, in milliseconds. A free
    /// lock is offered to it once.
    private static let ticketLifetime: Int64 = 10_000

    private struct Suspect: Sendable {
        var call: Call
        var at: Instant
        /// The clients with overlapping calls that have no answer yet.
        var open: Set<Int>
    }

    private struct Lock: Sendable {
        /// The end of all other possible leases.
        var freeFrom = Instant.distantPast
        /// The latest possible end of each lease.
        var held: [LeaseID: Instant] = [:]
        /// The lease that was last granted, if it is exclusive.
        var exclusiveLease: LeaseID?
        var clockLeases = ClockLeases()
        /// The latest possible end of the leases that a promoted replica may know, as in `FreeLockChecker`.
        var replicated = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// The number of leases that triggers the removal of expired ones.
        var cleanupThreshold = 16

        mutating func hold(_ lease: LeaseID, until end: Instant, at instant: Instant) {
            held[lease] = end
            guard held.count >= cleanupThreshold else { return }
            held = held.filter { $0.value > instant }
            cleanupThreshold = max(16, 2 * held.count)
        }
        /// The last time that a call stopped waiting.
        var lastWaiter = Instant.distantPast
        var open: Set<Int> = []
        var suspects: [Suspect] = []
    }

    private let recovery: Int64
    private let rules: HistoryRules
    private var locks: [Int: Lock] = [:]

    init(rules: HistoryRules) {
        recovery = rules.recovery
        self.rules = rules
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            switch call.operation {
            case .acquire(let number, _, _, _, _): locks[number, default: Lock()].open.insert(call.client)
            case .release(let number, _): mayBeReleased(number, at: step.at)
            default: return
            }
        case .linked(let number, let lease, _, .began, _, _):
            locks[number]?.hold(lease, until: .distantFuture, at: step.at)
        case .linked(let number, let lease, let ttl, _, let sidecar, _):
            mayBeReleased(number, at: step.at)
            end(lease, of: number, ttl: ttl, at: step.at)
            if let sidecar { locks[number]?.lateCalls.unconfirmed(by: sidecar, ttl: ttl, faults: faults) }
        case .ended(let call, let ending, _):
            if ending.isDoubtful, let (lock, ttl) = call.lockAndTTL {
                locks[lock, default: Lock()].lateCalls.unanswered(call, ttl: ttl, faults: faults)
            }
            switch call.operation {
            case .acquire(let number, let mode, let ttl, let wait, let isJoint):
                // Shared calls are not judged, but may keep others out.
                ended(
                    call, ending, number, ttl, isWaiter: wait > 0 || isJoint || mode != .exclusive,
                    isExclusive: mode == .exclusive,
                    at: step.at, faults: faults,
                    into: &violations)
            case .renew(let number, let lease, let ttl):
                if case .refused = ending {
                    locks[number]?.held[lease] = nil
                    locks[number]?.clockLeases.ended(lease)
                } else {
                    extend(number, ttl, at: step.at)
                    if let end = locks[number]?.freeFrom { locks[number]?.hold(lease, until: end, at: step.at) }
                }
            case .release(let number, let lease):
                locks[number]?.clockLeases.ended(lease)
                switch ending {
                case .done: end(lease, of: number, ttl: 0, at: step.at)
                default: locks[number]?.held[lease] = nil
                }
            default: return
            }
        case .faultBegan(_, let kind, _):
            for (number, lock) in locks {
                if let end = locks[number]?.abandoned.faultBegan(kind, at: step.at) {
                    locks[number]?.freeFrom = max(lock.freeFrom, end)
                }
            }
            if kind.mayCause(.clockJump) { clockJumped(at: step.at) }
            if kind.mayCause(.lostWrites) { replicate(at: step.at) }
        case .faultEnded(_, let kind, _) where kind.mayCause(.clockJump):
            clockJumped(at: step.at)
        case .faultEnded(_, let kind, let sidecar):
            for number in locks.keys {
                if kind.mayCause(.lostWrites), let lock = locks[number] {
                    locks[number]?.freeFrom = max(lock.freeFrom, lock.replicated)
                }
                if let ttl = locks[number]?.lateCalls.ended(kind, sidecar: sidecar, faults: faults) {
                    extend(number, ttl, at: step.at)
                }
            }
        default:
            return
        }
    }

    private mutating func mayBeReleased(_ number: Int, at instant: Instant) {
        guard let lock = locks[number], let end = locks[number]?.abandoned.released(at: instant) else { return }
        locks[number]?.freeFrom = max(lock.freeFrom, end)
    }

    private mutating func clockJumped(at instant: Instant) {
        for (number, lock) in locks {
            let mayIncludeUnanswered = lock.freeFrom >= instant || !lock.open.isEmpty
            locks[number]?.clockLeases.clockJumped(lock.held.keys, mayIncludeUnanswered: mayIncludeUnanswered)
        }
    }

    /// Keeps the ends of the leases that a promoted replica may know.
    private mutating func replicate(at instant: Instant) {
        let last = instant.advanced(byMilliseconds: FreeLockChecker.maximumLease)
        for (number, lock) in locks { locks[number]?.replicated = min(last, lock.held.values.reduce(lock.freeFrom, max)) }
    }

    private mutating func extend(_ number: Int, _ ttl: Int64, at instant: Instant) {
        let end = rules.leaseEnd(ttl, after: instant)
        locks[number, default: Lock()].freeFrom = max(locks[number]?.freeFrom ?? end, end)
    }

    /// Removes a lease that ends within `ttl` ms. If the last exclusive holder released it and no other lease remains,
    /// the lock is free immediately.
    private mutating func end(_ lease: LeaseID, of number: Int, ttl: Int64, at instant: Instant) {
        let isKnown = locks[number]?.held.removeValue(forKey: lease) != nil
        guard isKnown, ttl == 0, locks[number]?.exclusiveLease == lease,
            locks[number]?.held.values.allSatisfy({ $0 <= instant }) ?? false
        else { return extend(number, ttl, at: instant) }
        locks[number]?.freeFrom = instant
    }

    private mutating func ended(
        _ call: Call, _ ending: OperationEnding, _ number: Int, _ ttl: Int64, isWaiter: Bool, isExclusive: Bool,
        at instant: Instant,
        faults: FaultLog, into violations: inout [Violation]
    ) {
        var lock = locks[number, default: Lock()]
        defer { locks[number] = lock }
        lock.open.remove(call.client)
        if isWaiter { lock.lastWaiter = instant }
        switch ending {
        // A killed or stopped sidecar may have been granted a lease, which expires by itself.
        case .refused(.held),
            .failed(code: "UNAVAILABLE") where !faults.wasActive(.silence, sidecar: call.sidecar, since: call.invoked):
            // The call may have held the lock or a position in the queue for a moment.
            if isWaiter { lock.suspects.removeAll { $0.open.contains(call.client) } }
            for index in lock.suspects.indices { lock.suspects[index].open.remove(call.client) }
            let isFree = lock.freeFrom < call.invoked && lock.held.values.allSatisfy { $0 < call.invoked }
            let isUncontended = !isWaiter && lock.lastWaiter < call.invoked.advanced(byMilliseconds: -1000)
            if isFree, isUncontended, lock.clockLeases.isEmpty {
                lock.suspects.append(Suspect(call: call, at: instant, open: lock.open))
            }
        default:
            var end = rules.leaseEnd(ttl, after: instant)
            if case .unknown(OperationEnding.abandoned) = ending, case .acquire(_, _, _, _, false) = call.operation {
                end = lock.abandoned.clientLeft(
                    call, at: instant, heldUntil: lock.held.values.max(), expiry: end, recovery: recovery,
                    faults: faults)
            }
            if case .done(.granted(let lease, _, _)) = ending {
                if isExclusive, call.invoked > faults.lastClockJump { lock.clockLeases.removeAll() }
                lock.exclusiveLease = isExclusive ? lease : nil
                lock.hold(lease, until: end, at: instant)
            }
            lock.freeFrom = max(lock.freeFrom, end)
            lock.suspects = []
        }
        let decided = lock.suspects.filter(\.open.isEmpty)
        lock.suspects.removeAll(where: \.open.isEmpty)
        for suspect in decided {
            let since = suspect.call.invoked.advanced(byMilliseconds: -recovery)
            guard !faults.wasActive(.disturbedLocks, since: since.advanced(byMilliseconds: -Self.ticketLifetime)),
                !faults.wasActive(.lostVotes, since: since),
                !faults.wasActive(.silence, sidecar: suspect.call.sidecar, since: since)
            else { continue }
            report(
                at: suspect.at, into: &violations,
                """
                lock \(number): client \(suspect.call.client) was refused at sidecar \(suspect.call.sidecar), although no one \
                held the lock, and no one who requested it meanwhile acquired it
                """)
        }
    }
}

/// Checks that a client that is refused as "held" does not hold the lock: it cannot release a lease that it was never
/// granted.
///
/// Some refused clients try to release the lease that their OWNER may have. Uses O(clients) memory.
struct GhostLeaseChecker: HistoryChecker {
    static let invariant = Invariant.freeLocks

    /// The clients that try to release a lease that they were never granted, and have no answer yet.
    private var unownedReleases: Set<Int> = []

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, nil):
            if case .release = call.operation { unownedReleases.insert(call.client) }
        case .ended(let call, let ending, _):
            guard case .release(let lock, _) = call.operation, unownedReleases.remove(call.client) != nil, case .done = ending
            else {
                return
            }
            report(
                at: step.at, into: &violations,
                """
                lock \(lock): client \(call.client) was refused as "held", but sidecar \(call.sidecar) released the client's lease
                """)
        default:
            return
        }
    }
}
