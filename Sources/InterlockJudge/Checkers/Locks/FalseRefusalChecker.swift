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

    /// The maximum time for which the ticket of a sidecar that stopped waiting stays in a queue, in milliseconds. Redis
    /// offers a free lock to it once.
    private static let ticketLifetimeMilliseconds: Int64 = 10_000

    private struct Suspect: Sendable {
        var call: Call
        var at: Instant
        /// The clients with overlapping calls that have no answer yet.
        var openClients: Set<Int>
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
        var replicatedUntil = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// The number of leases that triggers the removal of expired ones.
        var cleanupThreshold = 16
        /// The last time that a call stopped waiting.
        var lastWaitEnd = Instant.distantPast
        /// The clients whose calls have no answer yet.
        var openClients: Set<Int> = []
        var suspects: [Suspect] = []

        mutating func hold(_ lease: LeaseID, until end: Instant, at instant: Instant) {
            held[lease] = end
            guard held.count >= cleanupThreshold else { return }
            held = held.filter { $0.value > instant }
            cleanupThreshold = max(16, 2 * held.count)
        }
    }

    private let recoveryMilliseconds: Int64
    private let rules: HistoryRules
    private var locks: [Int: Lock] = [:]

    init(rules: HistoryRules) {
        recoveryMilliseconds = rules.recoveryMilliseconds
        self.rules = rules
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            switch call.operation {
            case .acquire(let number, _, _, _, _): locks[number, default: Lock()].openClients.insert(call.client)
            case .release(let number, _): lockMayBeReleased(number, at: step.at)
            default: return
            }
        case .linked(let number, let lease, _, .began, _, _):
            locks[number]?.hold(lease, until: .distantFuture, at: step.at)
        case .linked(let number, let lease, let ttlMilliseconds, _, let sidecar, _):
            lockMayBeReleased(number, at: step.at)
            end(lease, of: number, ttlMilliseconds: ttlMilliseconds, at: step.at)
            if let sidecar {
                locks[number]?.lateCalls.recordUnconfirmed(
                    by: sidecar, ttlMilliseconds: ttlMilliseconds, faults: faults)
            }
        case .ended(let call, let ending, _):
            if ending.isDoubtful, let (lock, ttlMilliseconds) = call.lockAndTTL {
                locks[lock, default: Lock()].lateCalls.recordUnanswered(
                    call, ttlMilliseconds: ttlMilliseconds, faults: faults)
            }
            switch call.operation {
            case .acquire(let number, let mode, let ttlMilliseconds, let waitMilliseconds, let isJoint):
                // Shared calls are not judged, but may keep others out.
                acquireEnded(
                    call, ending, number, ttlMilliseconds,
                    isWaiter: waitMilliseconds > 0 || isJoint || mode != .exclusive,
                    isExclusive: mode == .exclusive,
                    at: step.at, faults: faults,
                    into: &violations)
            case .renew(let number, let lease, let ttlMilliseconds):
                if case .refused = ending {
                    locks[number]?.held[lease] = nil
                    locks[number]?.clockLeases.leaseEnded(lease)
                } else {
                    extend(number, ttlMilliseconds, at: step.at)
                    if let end = locks[number]?.freeFrom { locks[number]?.hold(lease, until: end, at: step.at) }
                }
            case .release(let number, let lease):
                locks[number]?.clockLeases.leaseEnded(lease)
                switch ending {
                case .done: end(lease, of: number, ttlMilliseconds: 0, at: step.at)
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
            if kind.mayCause(.lostWrites) { recordReplicatedLeases(at: step.at) }
        case .faultEnded(_, let kind, _) where kind.mayCause(.clockJump):
            clockJumped(at: step.at)
        case .faultEnded(_, let kind, let sidecar):
            for number in locks.keys {
                if kind.mayCause(.lostWrites), let lock = locks[number] {
                    locks[number]?.freeFrom = max(lock.freeFrom, lock.replicatedUntil)
                }
                if let ttlMilliseconds = locks[number]?.lateCalls.faultEnded(kind, sidecar: sidecar, faults: faults) {
                    extend(number, ttlMilliseconds, at: step.at)
                }
            }
        default:
            return
        }
    }

    /// Handles a request or an event that may release the lock.
    private mutating func lockMayBeReleased(_ number: Int, at instant: Instant) {
        guard let lock = locks[number], let end = locks[number]?.abandoned.lockMayBeReleased(at: instant) else {
            return
        }
        locks[number]?.freeFrom = max(lock.freeFrom, end)
    }

    private mutating func clockJumped(at instant: Instant) {
        for (number, lock) in locks {
            let mayIncludeUnanswered = lock.freeFrom >= instant || !lock.openClients.isEmpty
            locks[number]?.clockLeases.clockJumped(lock.held.keys, mayIncludeUnanswered: mayIncludeUnanswered)
        }
    }

    /// Records the latest end of the leases that a promoted replica may know.
    private mutating func recordReplicatedLeases(at instant: Instant) {
        let last = instant.advanced(byMilliseconds: FreeLockChecker.maximumLeaseMilliseconds)
        for (number, lock) in locks {
            locks[number]?.replicatedUntil = min(last, lock.held.values.reduce(lock.freeFrom, max))
        }
    }

    /// Records that a lease may have been granted or renewed for this time.
    private mutating func extend(_ number: Int, _ ttlMilliseconds: Int64, at instant: Instant) {
        let end = rules.leaseEnd(ttlMilliseconds, after: instant)
        locks[number, default: Lock()].freeFrom = max(locks[number]?.freeFrom ?? end, end)
    }

    /// Removes a lease that ends within its TTL. If the last exclusive holder released it and no other lease remains,
    /// the lock is free immediately.
    private mutating func end(_ lease: LeaseID, of number: Int, ttlMilliseconds: Int64, at instant: Instant) {
        let isKnown = locks[number]?.held.removeValue(forKey: lease) != nil
        guard isKnown, ttlMilliseconds == 0, locks[number]?.exclusiveLease == lease,
            locks[number]?.held.values.allSatisfy({ $0 <= instant }) ?? false
        else { return extend(number, ttlMilliseconds, at: instant) }
        locks[number]?.freeFrom = instant
    }

    private mutating func acquireEnded(
        _ call: Call, _ ending: OperationEnding, _ number: Int, _ ttlMilliseconds: Int64, isWaiter: Bool,
        isExclusive: Bool, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        var lock = locks[number, default: Lock()]
        defer { locks[number] = lock }
        lock.openClients.remove(call.client)
        if isWaiter { lock.lastWaitEnd = instant }
        switch ending {
        // A killed or stopped sidecar may have been granted a lease, which then stays until it expires.
        case .refused(.held),
            .failed(code: "UNAVAILABLE") where !faults.wasActive(.silence, sidecar: call.sidecar, since: call.invoked):
            // The call may have held the lock or a position in the queue for a moment.
            if isWaiter { lock.suspects.removeAll { $0.openClients.contains(call.client) } }
            for index in lock.suspects.indices { lock.suspects[index].openClients.remove(call.client) }
            let isFree = lock.freeFrom < call.invoked && lock.held.values.allSatisfy { $0 < call.invoked }
            let isUncontended = !isWaiter && lock.lastWaitEnd < call.invoked.advanced(byMilliseconds: -1000)
            if isFree, isUncontended, lock.clockLeases.isEmpty {
                lock.suspects.append(Suspect(call: call, at: instant, openClients: lock.openClients))
            }
        default:
            var end = rules.leaseEnd(ttlMilliseconds, after: instant)
            if case .unknown(OperationEnding.abandoned) = ending, case .acquire(_, _, _, _, false) = call.operation {
                end = lock.abandoned.clientLeft(
                    call, at: instant, heldUntil: lock.held.values.max(), expiry: end,
                    recoveryMilliseconds: recoveryMilliseconds,
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
        let decidedSuspects = lock.suspects.filter(\.openClients.isEmpty)
        lock.suspects.removeAll(where: \.openClients.isEmpty)
        for suspect in decidedSuspects {
            let since = suspect.call.invoked.advanced(byMilliseconds: -recoveryMilliseconds)
            guard
                !faults.wasActive(
                    .disturbedLocks, since: since.advanced(byMilliseconds: -Self.ticketLifetimeMilliseconds)),
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
