internal import InterlockCore

/// Nobody keeps waiting for a free lock or a free place of a semaphore: a client that is refused after a wait, or granted late,
/// had somebody before it.
///
/// A lock is free when every lease that would keep the caller out has been released or has expired, counted from its last
/// answer. It may stay free for the rules' `handOver` while only other sidecars are faulty, otherwise for the recovery time.
/// What a stopped or killed sidecar may have been granted before counts as held for its TTL. Readers behind a writer of such a
/// sidecar notice when they look again, at most `readersLook` later. Nothing is judged after any other fault.
///
/// A call without an OWNER ends with its wait if its client leaves while it certainly waits: its sidecar gives back what it is
/// granted for it. A release is carried out even if its client closes right behind it.
///
/// After a jump of Redis' clock nobody knows how long the leases of that time last. Nobody is accused until they are released or
/// somebody holds the lock alone. Bounded by locks, valid leases and calls under way.
struct FreeLockChecker: HistoryChecker {
    static let promise = Promise.freeLocks

    private struct Hold: Sendable {
        var mode: LeaseMode
        /// When it is over at the latest.
        var end: Instant
    }

    private struct Lock: Sendable {
        var holds: [LeaseID: Hold] = [:]
        /// When other possible leases are over, granted or not. The latest first, no more than there are places.
        private(set) var ends: [Instant] = []
        /// The most places that any client asked for.
        var places = 1
        /// Expired leases are dropped when there are this many.
        var worthALook = 16
        /// Calls under way, by client.
        var open: [Int: Call] = [:]
        var clockLeases = ClockLeases()
        /// When all leases are over that a replica which takes over may know, including those released meanwhile.
        var replicated = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// When a client that wanted the lock alone last waited at a healthy sidecar.
        var lastWriter = Instant.distantPast
        /// The sidecars where somebody waited to hold it alone. Their tickets may still be in the queue.
        var writers: Set<Int> = []

        mutating func hold(_ lease: LeaseID, _ mode: LeaseMode?, until end: Instant, at instant: Instant) {
            holds[lease] = Hold(mode: mode ?? holds[lease]?.mode ?? .exclusive, end: end)
            guard holds.count >= worthALook else { return }
            for (lease, hold) in holds where hold.end <= instant { self.end(lease, at: hold.end) }
            worthALook = max(16, 2 * holds.count)
        }

        mutating func end(_ lease: LeaseID, at instant: Instant) {
            holds[lease] = nil
            mayBeHeld(until: instant)
        }

        /// Somebody may have held the lock, or a place of it, until then.
        mutating func mayBeHeld(until end: Instant) {
            ends.insert(end, at: ends.firstIndex { $0 < end } ?? ends.endIndex)
            if ends.count > places { ends.removeLast() }
        }

        /// The same for all places, because the number of such calls is unknown.
        mutating func mayAllBeHeld(until end: Instant) {
            for _ in 0..<places { mayBeHeld(until: end) }
        }

        var lastEnd: Instant { ends.first ?? .distantPast }

        /// Since when nothing keeps a caller of this mode out.
        func freeSince(for mode: LeaseMode) -> Instant {
            switch mode {
            case .exclusive: holds.values.reduce(lastEnd) { max($0, $1.end) }
            case .shared: holds.values.reduce(lastEnd) { $1.mode == .shared ? $0 : max($0, $1.end) }
            case .permits(let places):
                // A place becomes free when all but `places - 1` leases have ended.
                (holds.values.map(\.end) + ends).sorted(by: >).dropFirst(places - 1).first ?? .distantPast
            }
        }
    }

    /// While its link stands, a linked lease is extended by at most this many ms at a time.
    static let longestLease: Int64 = 60_000

    /// How often readers check whether the writer before them is still there, in ms; see docs/reference/locks.md.
    static let readersLook: Int64 = 5000

    private let recovery: Int64
    private let handOver: Int64
    private let rules: HistoryRules
    private var locks: [Int: Lock] = [:]

    init(rules: HistoryRules) {
        recovery = rules.recovery
        handOver = rules.handOver ?? rules.recovery
        self.rules = rules
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .linked(let lock, let lease, _, .began, _, _):
            locks[lock, default: Lock()].hold(lease, nil, until: .distantFuture, at: step.at)
        case .linked(let lock, let lease, let ttl, _, let sidecar, _):
            mayBeReleased(lock, at: step.at)
            let end = rules.leaseEnd(ttl, after: step.at)
            locks[lock, default: Lock()].hold(lease, nil, until: end, at: step.at)
            if let sidecar { locks[lock]?.lateCalls.notHeard(by: sidecar, ttl: ttl, faults: faults) }
        case .faultBegan(_, let kind, _):
            for number in locks.keys {
                if let end = locks[number]?.abandoned.faultBegan(kind, at: step.at) { locks[number]?.mayAllBeHeld(until: end) }
            }
            if kind.mayCause(.clockJump) { clockJumped(at: step.at) }
            if kind.mayCause(.lostWrites) { replicate(at: step.at) }
        case .invoked(let call, _):
            if case .release(let lock, _) = call.operation { mayBeReleased(lock, at: step.at) }
            guard case .acquire(let lock, let mode, _, let wait, _) = call.operation else { return }
            locks[lock, default: Lock()].open[call.client] = call
            if mode == .exclusive, wait > 0 { locks[lock]?.writers.insert(call.sidecar) }
            if case .permits(let places) = mode, places > locks[lock]?.places ?? 1 { locks[lock]?.places = places }
        case .ended(let call, let ending, _):
            ended(call, ending, at: step.at, faults: faults, into: &violations)
        case .faultEnded(_, let kind, _) where kind.mayCause(.clockJump):
            clockJumped(at: step.at)
        case .faultEnded(_, let kind, let sidecar):
            for number in locks.keys {
                if kind.mayCause(.lostWrites), let end = locks[number]?.replicated { locks[number]?.mayAllBeHeld(until: end) }
                guard let ttl = locks[number]?.lateCalls.ended(kind, sidecar: sidecar, faults: faults) else { continue }
                let end = rules.leaseEnd(ttl, after: step.at)
                locks[number]?.mayAllBeHeld(until: end)
            }
        default:
            return
        }
    }

    private mutating func mayBeReleased(_ number: Int, at instant: Instant) {
        if let end = locks[number]?.abandoned.released(at: instant) { locks[number]?.mayAllBeHeld(until: end) }
    }

    private mutating func clockJumped(at instant: Instant) {
        for (number, lock) in locks {
            let mayBeMore = lock.lastEnd >= instant || !lock.open.isEmpty
            locks[number]?.clockLeases.clockJumped(lock.holds.keys, mayBeMore: mayBeMore)
        }
    }

    /// A replica that takes over may know the leases that are valid now.
    private mutating func replicate(at instant: Instant) {
        let last = instant.advanced(byMilliseconds: Self.longestLease)
        for (number, lock) in locks { locks[number]?.replicated = min(lock.freeSince(for: .exclusive), last) }
    }

    private mutating func ended(
        _ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        if case .acquire(let lock, let mode, _, let wait, _) = call.operation {
            locks[lock]?.open[call.client] = nil
            if mode == .exclusive, wait > 0, !faults.isUnderWay(.silence, sidecar: call.sidecar) {
                locks[lock]?.lastWriter = instant
            }
        }
        if ending.isDoubtful, let (lock, ttl) = call.lockAndTTL {
            locks[lock, default: Lock()].lateCalls.unanswered(call, ttl: ttl, faults: faults)
        }
        switch (call.operation, ending) {
        case (.acquire(let lock, let mode, let ttl, let wait, let isJoint), .done(.granted(let lease, _, _))):
            if wait > 0, !isJoint { judge(call, lock, mode, at: instant, faults: faults, into: &violations) }
            if mode == .exclusive, call.invoked > faults.lastClockJump {
                locks[lock]?.clockLeases.removeAll()
            }
            locks[lock, default: Lock()].hold(lease, mode, until: rules.leaseEnd(ttl, after: instant), at: instant)
        case (.renew(let lock, let lease, let ttl), .done), (.renew(let lock, let lease, let ttl), .failed),
            (.renew(let lock, let lease, let ttl), .unknown):
            // Granted or not: for as long as was asked for, and no shorter than before.
            let before = locks[lock]?.holds[lease]?.end ?? .distantPast
            locks[lock, default: Lock()].hold(lease, nil, until: max(before, rules.leaseEnd(ttl, after: instant)), at: instant)
        case (.acquire(let lock, let mode, _, let wait, let isJoint), .refused(.held)):
            guard !isJoint else {
                // It may have been held while the call waited for another lock.
                locks[lock, default: Lock()].mayBeHeld(until: instant)
                return
            }
            guard wait > 0 else { return }
            judge(call, lock, mode, at: instant, faults: faults, into: &violations)
        case (.acquire(let lock, _, let ttl, _, false), .unknown(OperationEnding.abandoned)):
            let heldUntil = locks[lock]?.holds.values.filter { $0.mode == .exclusive }.map(\.end).max()
            let end = locks[lock, default: Lock()].abandoned.left(
                call, at: instant, heldUntil: heldUntil, isOver: rules.leaseEnd(ttl, after: instant), recovery: recovery,
                faults: faults)
            locks[lock, default: Lock()].mayBeHeld(until: end)
        case (.release(let lock, let lease), .unknown(OperationEnding.abandoned)):
            guard let hold = locks[lock]?.holds[lease] else { return }
            let end = locks[lock]?.abandoned.closed(
                behind: call, at: instant, isOver: hold.end, recovery: recovery, faults: faults)
            locks[lock]?.holds[lease]?.end = end ?? hold.end
        case (.acquire(let lock, _, let ttl, _, _), .failed), (.acquire(let lock, _, let ttl, _, _), .unknown):
            let end = rules.leaseEnd(ttl, after: instant)
            locks[lock, default: Lock()].mayBeHeld(until: end)
        case (.renew(let lock, let lease, _), .refused), (.release(let lock, let lease), .done),
            (.release(let lock, let lease), .refused):
            locks[lock]?.end(lease, at: instant)
            locks[lock]?.clockLeases.ended(lease)
        default:
            return
        }
    }

    private func judge(
        _ call: Call, _ number: Int, _ mode: LeaseMode, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard var lock = locks[number], lock.clockLeases.isEmpty else { return }
        for (place, other) in lock.open.values.enumerated() {
            guard case .acquire(_, let otherMode, let ttl, _, let isJoint) = other.operation else { continue }
            // A joint call holds some locks while it waits for the rest.
            guard !isJoint else { return }
            if faults.isUnderWay(.silence, sidecar: other.sidecar) {
                let stopped = faults.lastBegin(of: .silence, sidecar: other.sidecar)
                // It may have been granted before its sidecar stopped, without an answer.
                if other.invoked <= stopped {
                    lock.holds[LeaseID(-1 - place)] = Hold(mode: otherMode, end: rules.leaseEnd(ttl, after: stopped))
                }
            } else if mode == .shared, otherMode == .exclusive {
                // Readers do not starve writers.
                return
            }
        }
        var freeSince = max(call.invoked, lock.freeSince(for: mode))
        if mode == .shared { freeSince = max(freeSince, lock.lastWriter) }
        guard instant > freeSince, !faults.touches(.disturbedLocks, since: freeSince.advanced(byMilliseconds: -recovery)),
            !faults.touches(.silence, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery))
        else { return }
        let calmSince = freeSince.advanced(byMilliseconds: -recovery)
        var bound = faults.touches(.otherThanSilence, since: calmSince) ? recovery : handOver
        if mode == .shared, lock.writers.contains(where: { faults.touches(.silence, sidecar: $0, since: calmSince) }) {
            bound = max(bound, Self.readersLook + handOver)
        }
        guard instant > freeSince.advanced(byMilliseconds: bound) else { return }
        report(
            at: instant, into: &violations,
            """
            lock \(number): client \(call.client) waited at sidecar \(call.sidecar), although nothing can have kept it out for \
            \(instant.millisecondsRoundedUp(since: freeSince)) ms; \(bound) ms are promised
            """)
    }
}
