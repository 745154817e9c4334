internal import InterlockCore

/// Checks that no client keeps waiting for a free lock or a free slot of a semaphore. If a client is refused after a
/// wait, or granted the lock late, another holder must have kept it out.
///
/// A lock is free once every lease that would keep the caller out was released or has expired, counted from its last
/// answer. It may stay free for the rules' `handOverMilliseconds` while only other sidecars are faulty, otherwise for
/// the recovery time. A lease that a stopped or killed sidecar may have been granted counts as held for its TTL.
/// Readers behind a writer of such a sidecar notice at their next check, at most `readerCheckIntervalMilliseconds`
/// later. The checker judges no wait during a fault that disturbs locks, or within the recovery time after it.
///
/// If a client disconnects while its call without an OWNER is known to wait, the sidecar releases any lease that is
/// then granted; see `AbandonedCalls`. A release takes effect even if its client closes the connection right after
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
        /// The latest possible ends of other leases, granted or not: at most one per slot, the latest first.
        private(set) var ends: [Instant] = []
        /// The maximum number of slots that a client requested.
        var slotCount = 1
        /// The number of leases that triggers the removal of expired ones.
        var cleanupThreshold = 16
        /// The calls without an answer yet, by client.
        var openCalls: [Int: Call] = [:]
        var clockLeases = ClockLeases()
        /// The latest possible end of the leases that a promoted replica may know, including leases released in the
        /// meantime.
        var replicatedUntil = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// The last time that an exclusive call at a healthy sidecar stopped waiting.
        var lastWriterWaitEnd = Instant.distantPast
        /// The sidecars at which exclusive calls have waited. Their tickets may still be in the queue.
        var writerSidecars: Set<Int> = []

        mutating func hold(_ lease: LeaseID, _ mode: LeaseMode?, until end: Instant, at instant: Instant) {
            holds[lease] = Hold(mode: mode ?? holds[lease]?.mode ?? .exclusive, end: end)
            guard holds.count >= cleanupThreshold else { return }
            for (lease, hold) in holds where hold.end <= instant { self.end(lease, at: hold.end) }
            cleanupThreshold = max(16, 2 * holds.count)
        }

        mutating func end(_ lease: LeaseID, at instant: Instant) {
            holds[lease] = nil
            recordPossibleHold(until: instant)
        }

        /// Records that a client may have held the lock, or a slot of it, until `end`.
        mutating func recordPossibleHold(until end: Instant) {
            ends.insert(end, at: ends.firstIndex { $0 < end } ?? ends.endIndex)
            if ends.count > slotCount { ends.removeLast() }
        }

        /// Records that any number of clients may have held slots of the lock until `end`.
        mutating func recordPossibleHoldOfAll(until end: Instant) {
            for _ in 0..<slotCount { recordPossibleHold(until: end) }
        }

        /// The latest possible end of the leases that are not in `holds`.
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
    static let maximumLeaseMilliseconds: Int64 = 60_000

    /// The interval at which readers check whether the writer ahead of them still waits, in milliseconds; see
    /// docs/reference/locks.md.
    static let readerCheckIntervalMilliseconds: Int64 = 5000

    private let recoveryMilliseconds: Int64
    private let handOverMilliseconds: Int64
    private let rules: HistoryRules
    private var locks: [Int: Lock] = [:]

    init(rules: HistoryRules) {
        recoveryMilliseconds = rules.recoveryMilliseconds
        handOverMilliseconds = rules.handOverMilliseconds ?? rules.recoveryMilliseconds
        self.rules = rules
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .linked(let lock, let lease, _, .began, _, _):
            locks[lock, default: Lock()].hold(lease, nil, until: .distantFuture, at: step.at)
        case .linked(let lock, let lease, let ttlMilliseconds, _, let sidecar, _):
            lockMayBeReleased(lock, at: step.at)
            let end = rules.leaseEnd(ttlMilliseconds, after: step.at)
            locks[lock, default: Lock()].hold(lease, nil, until: end, at: step.at)
            if let sidecar {
                locks[lock]?.lateCalls.recordUnconfirmed(by: sidecar, ttlMilliseconds: ttlMilliseconds, faults: faults)
            }
        case .faultBegan(_, let kind, _):
            for number in locks.keys {
                if let end = locks[number]?.abandoned.faultBegan(kind, at: step.at) {
                    locks[number]?.recordPossibleHoldOfAll(until: end)
                }
            }
            if kind.mayCause(.clockJump) { clockJumped(at: step.at) }
            if kind.mayCause(.lostWrites) { recordReplicatedLeases(at: step.at) }
        case .invoked(let call, _):
            if case .release(let lock, _) = call.operation { lockMayBeReleased(lock, at: step.at) }
            guard case .acquire(let lock, let mode, _, let waitMilliseconds, _) = call.operation else { return }
            locks[lock, default: Lock()].openCalls[call.client] = call
            if mode == .exclusive, waitMilliseconds > 0 { locks[lock]?.writerSidecars.insert(call.sidecar) }
            if case .permits(let slots) = mode, slots > locks[lock]?.slotCount ?? 1 { locks[lock]?.slotCount = slots }
        case .ended(let call, let ending, _):
            callEnded(call, ending, at: step.at, faults: faults, into: &violations)
        case .faultEnded(_, let kind, _) where kind.mayCause(.clockJump):
            clockJumped(at: step.at)
        case .faultEnded(_, let kind, let sidecar):
            faultEnded(kind, sidecar: sidecar, at: step.at, faults: faults)
        default:
            return
        }
    }

    private mutating func faultEnded(_ kind: FaultKind, sidecar: Int?, at instant: Instant, faults: FaultLog) {
        for number in locks.keys {
            if kind.mayCause(.lostWrites), let end = locks[number]?.replicatedUntil {
                locks[number]?.recordPossibleHoldOfAll(until: end)
            }
            guard let ttlMilliseconds = locks[number]?.lateCalls.faultEnded(kind, sidecar: sidecar, faults: faults)
            else { continue }
            let end = rules.leaseEnd(ttlMilliseconds, after: instant)
            locks[number]?.recordPossibleHoldOfAll(until: end)
        }
    }

    /// Handles a request or an event that may release the lock.
    private mutating func lockMayBeReleased(_ number: Int, at instant: Instant) {
        if let end = locks[number]?.abandoned.lockMayBeReleased(at: instant) {
            locks[number]?.recordPossibleHoldOfAll(until: end)
        }
    }

    private mutating func clockJumped(at instant: Instant) {
        for (number, lock) in locks {
            let mayIncludeUnanswered = lock.lastEnd >= instant || !lock.openCalls.isEmpty
            locks[number]?.clockLeases.clockJumped(lock.holds.keys, mayIncludeUnanswered: mayIncludeUnanswered)
        }
    }

    /// Records the latest end of the leases that a promoted replica may know.
    private mutating func recordReplicatedLeases(at instant: Instant) {
        let last = instant.advanced(byMilliseconds: Self.maximumLeaseMilliseconds)
        for (number, lock) in locks { locks[number]?.replicatedUntil = min(lock.freeSince(for: .exclusive), last) }
    }

    private mutating func callEnded(
        _ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        if case .acquire(let lock, let mode, _, let waitMilliseconds, _) = call.operation {
            locks[lock]?.openCalls[call.client] = nil
            if mode == .exclusive, waitMilliseconds > 0, !faults.isActive(.silence, sidecar: call.sidecar) {
                locks[lock]?.lastWriterWaitEnd = instant
            }
        }
        if ending.isDoubtful, let (lock, ttlMilliseconds) = call.lockAndTTL {
            locks[lock, default: Lock()].lateCalls.recordUnanswered(
                call, ttlMilliseconds: ttlMilliseconds, faults: faults)
        }
        switch (call.operation, ending) {
        case (
            .acquire(let lock, let mode, let ttlMilliseconds, let waitMilliseconds, let isJoint),
            .done(.granted(let lease, _, _))
        ):
            if waitMilliseconds > 0, !isJoint {
                judge(call, lock, mode, at: instant, faults: faults, into: &violations)
            }
            if mode == .exclusive, call.invoked > faults.lastClockJump {
                locks[lock]?.clockLeases.removeAll()
            }
            locks[lock, default: Lock()].hold(
                lease, mode, until: rules.leaseEnd(ttlMilliseconds, after: instant), at: instant)
        case (.renew(let lock, let lease, let ttlMilliseconds), .done),
            (.renew(let lock, let lease, let ttlMilliseconds), .failed),
            (.renew(let lock, let lease, let ttlMilliseconds), .unknown):
            // The renewal may have taken effect, whatever the ending. It never shortens the hold.
            let previousEnd = locks[lock]?.holds[lease]?.end ?? .distantPast
            locks[lock, default: Lock()].hold(
                lease, nil, until: max(previousEnd, rules.leaseEnd(ttlMilliseconds, after: instant)), at: instant)
        case (.acquire(let lock, let mode, _, let waitMilliseconds, let isJoint), .refused(.held)):
            guard !isJoint else {
                // The lock may have been held while the call waited for another lock.
                locks[lock, default: Lock()].recordPossibleHold(until: instant)
                return
            }
            guard waitMilliseconds > 0 else { return }
            judge(call, lock, mode, at: instant, faults: faults, into: &violations)
        case (.acquire(let lock, _, let ttlMilliseconds, _, false), .unknown(OperationEnding.abandoned)):
            let heldUntil = locks[lock]?.holds.values.filter { $0.mode == .exclusive }.map(\.end).max()
            let end = locks[lock, default: Lock()].abandoned.clientLeft(
                call, at: instant, heldUntil: heldUntil, expiry: rules.leaseEnd(ttlMilliseconds, after: instant),
                recoveryMilliseconds: recoveryMilliseconds, faults: faults)
            locks[lock, default: Lock()].recordPossibleHold(until: end)
        case (.release(let lock, let lease), .unknown(OperationEnding.abandoned)):
            guard let hold = locks[lock]?.holds[lease] else { return }
            let end = locks[lock]?.abandoned.connectionClosed(
                after: call, at: instant, expiry: hold.end, recoveryMilliseconds: recoveryMilliseconds, faults: faults)
            locks[lock]?.holds[lease]?.end = end ?? hold.end
        case (.acquire(let lock, _, let ttlMilliseconds, _, _), .failed),
            (.acquire(let lock, _, let ttlMilliseconds, _, _), .unknown):
            let end = rules.leaseEnd(ttlMilliseconds, after: instant)
            locks[lock, default: Lock()].recordPossibleHold(until: end)
        case (.renew(let lock, let lease, _), .refused), (.release(let lock, let lease), .done),
            (.release(let lock, let lease), .refused):
            locks[lock]?.end(lease, at: instant)
            locks[lock]?.clockLeases.leaseEnded(lease)
        default:
            return
        }
    }

    /// Reports a call that ended too long after the lock became free.
    private func judge(
        _ call: Call, _ number: Int, _ mode: LeaseMode, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard var lock = locks[number], lock.clockLeases.isEmpty else { return }
        for (index, other) in lock.openCalls.values.enumerated() {
            guard case .acquire(_, let otherMode, let ttlMilliseconds, _, let isJoint) = other.operation else {
                continue
            }
            // A joint call holds some locks while it waits for the rest.
            guard !isJoint else { return }
            if faults.isActive(.silence, sidecar: other.sidecar) {
                let stoppedAt = faults.lastBegin(of: .silence, sidecar: other.sidecar)
                // The sidecar may have been granted the lease before it stopped, without answering.
                if other.invoked <= stoppedAt {
                    lock.holds[LeaseID(-1 - index)] = Hold(
                        mode: otherMode, end: rules.leaseEnd(ttlMilliseconds, after: stoppedAt))
                }
            } else if mode == .shared, otherMode == .exclusive {
                // Readers do not starve writers.
                return
            }
        }
        var freeSince = max(call.invoked, lock.freeSince(for: mode))
        if mode == .shared { freeSince = max(freeSince, lock.lastWriterWaitEnd) }
        guard instant > freeSince,
            !faults.wasActive(.disturbedLocks, since: freeSince.advanced(byMilliseconds: -recoveryMilliseconds)),
            !faults.wasActive(
                .silence, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recoveryMilliseconds))
        else { return }
        let calmSince = freeSince.advanced(byMilliseconds: -recoveryMilliseconds)
        var boundMilliseconds =
            faults.wasActive(.anyExceptSilence, since: calmSince) ? recoveryMilliseconds : handOverMilliseconds
        if mode == .shared,
            lock.writerSidecars.contains(where: { faults.wasActive(.silence, sidecar: $0, since: calmSince) })
        {
            boundMilliseconds = max(boundMilliseconds, Self.readerCheckIntervalMilliseconds + handOverMilliseconds)
        }
        guard instant > freeSince.advanced(byMilliseconds: boundMilliseconds) else { return }
        report(
            at: instant, into: &violations,
            """
            lock \(number): client \(call.client) waited at sidecar \(call.sidecar), although nothing prevented a \
            grant for \(instant.millisecondsRoundedUp(since: freeSince)) ms; expected a wait of at most \
            \(boundMilliseconds) ms
            """)
    }
}
