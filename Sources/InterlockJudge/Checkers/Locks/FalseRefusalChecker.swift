internal import InterlockCore

/// A lock that is free is granted to one of those who ask for it at once: not all of them are told that it is held, or that it
/// cannot be had.
///
/// Suspect is a refusal of a call without a wait for a lock that nobody can hold while it is under way and nobody waited for
/// within the last second. It is excused by any call for the same lock that overlaps with it and waits, or is granted, or may
/// be; and by any fault that disturbs locks, for a ticket may be left of it, and by a jump of Redis' clock as in
/// `FreeLockChecker`. Exclusive locks only. Bounded by locks and the calls that are under way.
struct FalseRefusalChecker: HistoryChecker {
    static let promise = Promise.freeLocks

    /// For so many ms the ticket of a sidecar that waits for nothing any more may stand in a queue: a free lock is offered to
    /// it once.
    private static let ticketLifetime: Int64 = 10_000

    private struct Suspect: Sendable {
        var call: Call
        var at: Instant
        /// Those who asked meanwhile and have no answer yet.
        var open: Set<Int>
    }

    private struct Lock: Sendable {
        /// Every lease that there may be is over by then.
        var freeFrom = Instant.distantPast
        /// When each is over at the latest.
        var held: [LeaseID: Instant] = [:]
        /// The lease that somebody was last granted alone.
        var alone: LeaseID?
        var clockLeases = ClockLeases()
        /// As in `FreeLockChecker`.
        var replicated = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// Not looked through before there are so many: of some the time may be over.
        var worthALook = 16

        mutating func hold(_ lease: LeaseID, until end: Instant, at instant: Instant) {
            held[lease] = end
            guard held.count >= worthALook else { return }
            held = held.filter { $0.value > instant }
            worthALook = max(16, 2 * held.count)
        }
        /// Somebody waited until then.
        var lastWaiter = Instant.distantPast
        var open: Set<Int> = []
        var suspects: [Suspect] = []
    }

    private let recovery: Int64
    private let clockDrift: Double
    private var locks: [Int: Lock] = [:]

    init(rules: HistoryRules) {
        recovery = rules.recovery
        clockDrift = rules.clockDrift
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
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
            if let sidecar { locks[number]?.lateCalls.notHeard(by: sidecar, ttl: ttl, faults: faults) }
        case .ended(let call, let ending, _):
            if ending.isDoubtful, let (lock, ttl) = call.lockAndTTL {
                locks[lock, default: Lock()].lateCalls.unanswered(call, ttl: ttl, faults: faults)
            }
            switch call.operation {
            case .acquire(let number, let mode, let ttl, let wait, let isJoint):
                // Who wants to share it is not judged, but may keep others out.
                ended(
                    call, ending, number, ttl, isWaiter: wait > 0 || isJoint || mode != .exclusive, isAlone: mode == .exclusive,
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
            if kind == .clock { clockJumped(at: step.at) }
            if kind == .failover { replicate(at: step.at) }
        case .faultEnded(_, .clock, _):
            clockJumped(at: step.at)
        case .faultEnded(_, let kind, let sidecar):
            for number in locks.keys {
                if kind == .failover, let lock = locks[number] { locks[number]?.freeFrom = max(lock.freeFrom, lock.replicated) }
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
            let mayBeMore = lock.freeFrom >= instant || !lock.open.isEmpty
            locks[number]?.clockLeases.clockJumped(lock.held.keys, mayBeMore: mayBeMore)
        }
    }

    /// A replica may take over that knows what is in force now.
    private mutating func replicate(at instant: Instant) {
        let last = instant.advanced(byMilliseconds: FreeLockChecker.longestLease)
        for (number, lock) in locks { locks[number]?.replicated = min(last, lock.held.values.reduce(lock.freeFrom, max)) }
    }

    private mutating func extend(_ number: Int, _ ttl: Int64, at instant: Instant) {
        let end = instant.advanced(byMilliseconds: ttl + Int64(Double(ttl) * clockDrift) + 5)
        locks[number, default: Lock()].freeFrom = max(locks[number]?.freeFrom ?? end, end)
    }

    /// Who had the lock alone has released it: it is free from now on, whatever was reckoned with. Other leases may go on.
    private mutating func end(_ lease: LeaseID, of number: Int, ttl: Int64, at instant: Instant) {
        let isKnown = locks[number]?.held.removeValue(forKey: lease) != nil
        guard isKnown, ttl == 0, locks[number]?.alone == lease, locks[number]?.held.values.allSatisfy({ $0 <= instant }) ?? false
        else { return extend(number, ttl, at: instant) }
        locks[number]?.freeFrom = instant
    }

    private mutating func ended(
        _ call: Call, _ ending: OperationEnding, _ number: Int, _ ttl: Int64, isWaiter: Bool, isAlone: Bool, at instant: Instant,
        faults: FaultLog, into violations: inout [Violation]
    ) {
        var lock = locks[number, default: Lock()]
        defer { locks[number] = lock }
        lock.open.remove(call.client)
        if isWaiter { lock.lastWaiter = instant }
        switch ending {
        // What a sidecar that ends had asked for may be granted, and lapses.
        case .refused(.held),
            .failed(code: "UNAVAILABLE") where !faults.touches(.silence, sidecar: call.sidecar, since: call.invoked):
            // It may have held the lock on its way, or a place in the queue.
            if isWaiter { lock.suspects.removeAll { $0.open.contains(call.client) } }
            for place in lock.suspects.indices { lock.suspects[place].open.remove(call.client) }
            let isFree = lock.freeFrom < call.invoked && lock.held.values.allSatisfy { $0 < call.invoked }
            let isLonely = !isWaiter && lock.lastWaiter < call.invoked.advanced(byMilliseconds: -1000)
            if isFree, isLonely, lock.clockLeases.isEmpty {
                lock.suspects.append(Suspect(call: call, at: instant, open: lock.open))
            }
        default:
            var end = instant.advanced(byMilliseconds: ttl + Int64(Double(ttl) * clockDrift) + 5)
            if case .unknown(OperationEnding.abandoned) = ending, case .acquire(_, _, _, _, false) = call.operation {
                end = lock.abandoned.left(
                    call, at: instant, heldUntil: lock.held.values.max(), isOver: end, recovery: recovery,
                    faults: faults)
            }
            if case .done(.granted(let lease, _, _)) = ending {
                if isAlone, call.invoked > faults.lastClockJump { lock.clockLeases.removeAll() }
                lock.alone = isAlone ? lease : nil
                lock.hold(lease, until: end, at: instant)
            }
            lock.freeFrom = max(lock.freeFrom, end)
            lock.suspects = []
        }
        let settled = lock.suspects.filter(\.open.isEmpty)
        lock.suspects.removeAll(where: \.open.isEmpty)
        for suspect in settled {
            let since = suspect.call.invoked.advanced(byMilliseconds: -recovery)
            guard !faults.touches(.disturbedLocks, since: since.advanced(byMilliseconds: -Self.ticketLifetime)),
                !faults.touches(.lostVotes, since: since),
                !faults.touches(.silence, sidecar: suspect.call.sidecar, since: since)
            else { continue }
            violations.append(
                Violation(
                    Self.promise, at: suspect.at,
                    """
                    lock \(number): client \(suspect.call.client) was refused at sidecar \(suspect.call.sidecar), though nobody holds \
                    it, and nobody who asked meanwhile was granted it
                    """))
        }
    }
}

/// Who is told that a lock is held has not got it: a lease that nobody was granted cannot be released.
///
/// Seen when a client that was refused releases what its OWNER may have: a lease that no answer has told it of. Bounded by clients.
struct GhostLeaseChecker: HistoryChecker {
    static let promise = Promise.freeLocks

    /// Those who release what they were never granted, and have no answer yet.
    private var doubters: Set<Int> = []

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .invoked(let call, nil):
            if case .release = call.operation { doubters.insert(call.client) }
        case .ended(let call, let ending, _):
            guard case .release(let lock, _) = call.operation, doubters.remove(call.client) != nil, case .done = ending else {
                return
            }
            violations.append(
                Violation(
                    Self.promise, at: step.at,
                    """
                    lock \(lock): client \(call.client) had it, as its release at sidecar \(call.sidecar) says, and was told that it \
                    is held
                    """))
        default:
            return
        }
    }
}
