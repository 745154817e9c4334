internal import InterlockCore

/// Checks that no client keeps waiting for a free lock or a free slot of a semaphore. If a client is refused after a
/// wait, or granted the lock late, another holder must have kept it out.
///
/// A lock is free once every lease that would keep the caller out was released or has expired, counted from its last
/// answer. It may stay free for the rules' `handOver` while only other sidecars are faulty, otherwise for the recovery
/// time. A lease that a stopped or killed sidecar may have been granted counts as held for its TTL. Readers behind a
/// writer of such a sidecar notice at their next check, at most `readerCheckInterval` later. The checker judges nothing
/// after any other fault.
///
/// A call without an OWNER ends with its wait if its client leaves while the call is known to wait: its sidecar
/// releases the lease if one is granted. A release takes effect even if its client closes the connection right after
/// sending it.
///
/// After a jump of the Redis clock the remaining time of earlier leases is unknown. The checker judges nothing until
/// they are released or a client gets the lock exclusively. Uses O(locks + valid leases + active calls) memory.
struct FreeLockChecker: HistoryChecker {
    static let invariant = Invariant.freeLocks

    private struct Hold: Sendable {
        var mode: LeaseMode
        /// The latest possible end of the lease.
        var end: Instant
    }

    private struct Lock: Sendable {
        var holds: [LeaseID: Hold] = [:]
        /// The latest possible ends of other leases, granted or not. Latest first, and no more than `slots`.
        private(set) var ends: [Instant] = []
        /// The maximum number of slots that a client requested.
        var slots = 1
        /// The number of leases that triggers the removal of expired ones.
        var cleanupThreshold = 16
        /// The active calls, by client.
        var open: [Int: Call] = [:]
        var clockLeases = ClockLeases()
        /// The latest possible end of the leases that a promoted replica may know, including leases released in the
        /// meantime.
        var replicated = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// The last time that an exclusive call at a healthy sidecar stopped waiting.
        var lastWriter = Instant.distantPast
        /// The sidecars at which exclusive calls have waited. Their tickets may still be in the queue.
        var writers: Set<Int> = []

        mutating func hold(_ lease: LeaseID, _ mode: LeaseMode?, until end: Instant, at instant: Instant) {
            holds[lease] = Hold(mode: mode ?? holds[lease]?.mode ?? .exclusive, end: end)
            guard holds.count >= cleanupThreshold else { return }
            for (lease, hold) in holds where hold.end <= instant { self.end(lease, at: hold.end) }
            cleanupThreshold = max(16, 2 * holds.count)
        }

        mutating func end(_ lease: LeaseID, at instant: Instant) {
            holds[lease] = nil
            mayBeHeld(until: instant)
        }

        /// Records that a client may have held the lock, or a slot of it, until `end`.
        mutating func mayBeHeld(until end: Instant) {
            ends.insert(end, at: ends.firstIndex { $0 < end } ?? ends.endIndex)
            if ends.count > slots { ends.removeLast() }
        }

        /// Records `end` for every slot, because the number of such calls is unknown.
        mutating func mayAllBeHeld(until end: Instant) {
            for _ in 0..<slots { mayBeHeld(until: end) }
        }

        var lastEnd: Instant { ends.first ?? .distantPast }

        /// Returns the time since which no lease keeps a caller of this mode out.
        func freeSince(for mode: LeaseMode) -> Instant {
            switch mode {
            case .exclusive: holds.values.reduce(lastEnd) { max($0, $1.end) }
            case .shared: holds.values.reduce(lastEnd) { $1.mode == .shared ? $0 : max($0, $1.end) }
            case .permits(let slots):
                // A slot becomes free once all but `slots - 1` leases have ended.
                (holds.values.map(\.end) + ends).sorted(by: >).dropFirst(slots - 1).first ?? .distantPast
            }
        }
    }

    /// The maximum TTL of a linked lease while its link lasts, in milliseconds.
    static let maximumLease: Int64 = 60_000

    /// The interval at which readers check whether the writer ahead of them still waits, in milliseconds; see
    /// docs/reference/locks.md.
    static let readerCheckInterval: Int64 = 5000

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
        switch step.kind {
        case .linked(let lock, let lease, _, .began, _, _):
            locks[lock, default: Lock()].hold(lease, nil, until: .distantFuture, at: step.at)
        case .linked(let lock, let lease, let ttl, _, let sidecar, _):
            mayBeReleased(lock, at: step.at)
            let end = rules.leaseEnd(ttl, after: step.at)
            locks[lock, default: Lock()].hold(lease, nil, until: end, at: step.at)
            if let sidecar { locks[lock]?.lateCalls.unconfirmed(by: sidecar, ttl: ttl, faults: faults) }
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
            if case .permits(let slots) = mode, slots > locks[lock]?.slots ?? 1 { locks[lock]?.slots = slots }
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
            let mayIncludeUnanswered = lock.lastEnd >= instant || !lock.open.isEmpty
            locks[number]?.clockLeases.clockJumped(lock.holds.keys, mayIncludeUnanswered: mayIncludeUnanswered)
        }
    }

    /// Keeps the ends of the leases that a promoted replica may know.
    private mutating func replicate(at instant: Instant) {
        let last = instant.advanced(byMilliseconds: Self.maximumLease)
        for (number, lock) in locks { locks[number]?.replicated = min(lock.freeSince(for: .exclusive), last) }
    }

    private mutating func ended(
        _ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        if case .acquire(let lock, let mode, _, let wait, _) = call.operation {
            locks[lock]?.open[call.client] = nil
            if mode == .exclusive, wait > 0, !faults.isActive(.silence, sidecar: call.sidecar) {
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
            // The renewal may have taken effect, whatever the ending. It never shortens the hold.
            let before = locks[lock]?.holds[lease]?.end ?? .distantPast
            locks[lock, default: Lock()].hold(lease, nil, until: max(before, rules.leaseEnd(ttl, after: instant)), at: instant)
        case (.acquire(let lock, let mode, _, let wait, let isJoint), .refused(.held)):
            guard !isJoint else {
                // The lock may have been held while the call waited for another lock.
                locks[lock, default: Lock()].mayBeHeld(until: instant)
                return
            }
            guard wait > 0 else { return }
            judge(call, lock, mode, at: instant, faults: faults, into: &violations)
        case (.acquire(let lock, _, let ttl, _, false), .unknown(OperationEnding.abandoned)):
            let heldUntil = locks[lock]?.holds.values.filter { $0.mode == .exclusive }.map(\.end).max()
            let end = locks[lock, default: Lock()].abandoned.clientLeft(
                call, at: instant, heldUntil: heldUntil, expiry: rules.leaseEnd(ttl, after: instant), recovery: recovery,
                faults: faults)
            locks[lock, default: Lock()].mayBeHeld(until: end)
        case (.release(let lock, let lease), .unknown(OperationEnding.abandoned)):
            guard let hold = locks[lock]?.holds[lease] else { return }
            let end = locks[lock]?.abandoned.connectionClosed(
                after: call, at: instant, expiry: hold.end, recovery: recovery, faults: faults)
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
        for (index, other) in lock.open.values.enumerated() {
            guard case .acquire(_, let otherMode, let ttl, _, let isJoint) = other.operation else { continue }
            // A joint call holds some locks while it waits for the rest.
            guard !isJoint else { return }
            if faults.isActive(.silence, sidecar: other.sidecar) {
                let stopped = faults.lastBegin(of: .silence, sidecar: other.sidecar)
                // The sidecar may have been granted the lease before it stopped, without answering.
                if other.invoked <= stopped {
                    lock.holds[LeaseID(-1 - index)] = Hold(mode: otherMode, end: rules.leaseEnd(ttl, after: stopped))
                }
            } else if mode == .shared, otherMode == .exclusive {
                // Readers do not starve writers.
                return
            }
        }
        var freeSince = max(call.invoked, lock.freeSince(for: mode))
        if mode == .shared { freeSince = max(freeSince, lock.lastWriter) }
        guard instant > freeSince, !faults.wasActive(.disturbedLocks, since: freeSince.advanced(byMilliseconds: -recovery)),
            !faults.wasActive(.silence, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery))
        else { return }
        let calmSince = freeSince.advanced(byMilliseconds: -recovery)
        var bound = faults.wasActive(.anyExceptSilence, since: calmSince) ? recovery : handOver
        if mode == .shared, lock.writers.contains(where: { faults.wasActive(.silence, sidecar: $0, since: calmSince) }) {
            bound = max(bound, Self.readerCheckInterval + handOver)
        }
        guard instant > freeSince.advanced(byMilliseconds: bound) else { return }
        report(
            at: instant, into: &violations,
            """
            lock \(number): client \(call.client) waited at sidecar \(call.sidecar), although nothing prevented a grant for \
            \(instant.millisecondsRoundedUp(since: freeSince)) ms; expected a wait of at most \(bound) ms
            """)
    }
}
