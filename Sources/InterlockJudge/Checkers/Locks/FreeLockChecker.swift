internal import InterlockCore

/// Nobody is left waiting for a lock, or a place of it, that nobody can hold: who is refused after a wait, or granted it late, had
/// somebody before him.
///
/// Free is a lock when no lease of it can be in force that would keep the caller out: each is over, as long after its last
/// answer as it was asked for, or was released. It may stay free for the rules' `handOver` while nothing but other sidecars is
/// broken, else for their recovery time. Another sidecar that stands still or is killed costs no more than that: what it may
/// have been granted before it stopped counts as held for its length. Readers who wait behind a writer of such a sidecar find
/// out when they look again, `readersLook` later at the latest. Nothing is judged after any other fault.
///
/// A call without an OWNER whose client goes away while it certainly waits is over with the wait: what its sidecar is granted for
/// it is given back.
///
/// When Redis' clock jumps, the leases of that time last for longer or shorter than anybody knows: until they are released, or
/// somebody has the lock alone, nobody is accused. Bounded by locks and the leases and calls that are in force.
struct FreeLockChecker: HistoryChecker {
    static let promise = Promise.freeLocks

    private struct Hold: Sendable {
        var mode: LeaseMode
        /// When it is over at the latest.
        var end: Instant
    }

    private struct Lock: Sendable {
        var holds: [LeaseID: Hold] = [:]
        /// The same of those that are not among them, whether or not they were granted: the latest first, no more than there
        /// are places.
        private(set) var ends: [Instant] = []
        /// The most places that anybody has asked for it to have.
        var places = 1
        /// Not looked through before there are so many: of some the time may be over.
        var worthALook = 16
        /// Calls for it that have not ended, by their clients.
        var open: [Int: Call] = [:]
        var clockLeases = ClockLeases()
        /// When all leases are over that a replica may know which takes over: also those that are released meanwhile.
        var replicated = Instant.distantPast
        var lateCalls = LateCalls()
        var abandoned = AbandonedCalls()
        /// When somebody who wanted it alone last waited where nothing was wrong.
        var lastWriter = Instant.distantPast
        /// The sidecars at which somebody ever waited to have it alone: their tickets may stand.
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

        /// Somebody may have had it until then, or a place of it.
        mutating func mayBeHeld(until end: Instant) {
            ends.insert(end, at: ends.firstIndex { $0 < end } ?? ends.endIndex)
            if ends.count > places { ends.removeLast() }
        }

        /// The same of all its places: nobody knows how many calls may have them.
        mutating func mayAllBeHeld(until end: Instant) {
            for _ in 0..<places { mayBeHeld(until: end) }
        }

        var lastEnd: Instant { ends.first ?? .distantPast }

        /// Since when nothing keeps out who wants it in this way.
        func freeSince(for mode: LeaseMode) -> Instant {
            switch mode {
            case .exclusive: holds.values.reduce(lastEnd) { max($0, $1.end) }
            case .shared: holds.values.reduce(lastEnd) { $1.mode == .shared ? $0 : max($0, $1.end) }
            case .permits(let places):
                // The last but so many to end.
                (holds.values.map(\.end) + ends).sorted(by: >).dropFirst(places - 1).first ?? .distantPast
            }
        }
    }

    /// A linked lease is extended for as long as its link stands, by no more than this at a time, in ms.
    static let longestLease: Int64 = 60_000

    /// How often readers look whether the writer before them is still there, in ms, as docs/reference/locks.md has it.
    static let readersLook: Int64 = 5000

    private let recovery: Int64
    private let handOver: Int64
    private let clockDrift: Double
    private var locks: [Int: Lock] = [:]

    init(rules: HistoryRules) {
        recovery = rules.recovery
        handOver = rules.handOver ?? rules.recovery
        clockDrift = rules.clockDrift
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .linked(let lock, let lease, _, .began, _, _):
            locks[lock, default: Lock()].hold(lease, nil, until: .distantFuture, at: step.at)
        case .linked(let lock, let lease, let ttl, _, let sidecar, _):
            mayBeReleased(lock, at: step.at)
            let end = ended(ttl, after: step.at)
            locks[lock, default: Lock()].hold(lease, nil, until: end, at: step.at)
            if let sidecar { locks[lock]?.lateCalls.notHeard(by: sidecar, ttl: ttl, faults: faults) }
        case .faultBegan(_, let kind, _):
            for number in locks.keys {
                if let end = locks[number]?.abandoned.faultBegan(kind, at: step.at) { locks[number]?.mayAllBeHeld(until: end) }
            }
            if kind == .clock { clockJumped(at: step.at) }
            if kind == .failover { replicate(at: step.at) }
        case .invoked(let call, _):
            if case .release(let lock, _) = call.operation { mayBeReleased(lock, at: step.at) }
            guard case .acquire(let lock, let mode, _, let wait, _) = call.operation else { return }
            locks[lock, default: Lock()].open[call.client] = call
            if mode == .exclusive, wait > 0 { locks[lock]?.writers.insert(call.sidecar) }
            if case .permits(let places) = mode, places > locks[lock]?.places ?? 1 { locks[lock]?.places = places }
        case .ended(let call, let ending, _):
            ended(call, ending, at: step.at, faults: faults, into: &violations)
        case .faultEnded(_, .clock, _):
            clockJumped(at: step.at)
        case .faultEnded(_, let kind, let sidecar):
            for number in locks.keys {
                if kind == .failover, let end = locks[number]?.replicated { locks[number]?.mayAllBeHeld(until: end) }
                guard let ttl = locks[number]?.lateCalls.ended(kind, sidecar: sidecar, faults: faults) else { continue }
                let end = ended(ttl, after: step.at)
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

    /// A replica may take over that knows what is in force now.
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
            locks[lock, default: Lock()].hold(lease, mode, until: ended(ttl, after: instant), at: instant)
        case (.renew(let lock, let lease, let ttl), .done), (.renew(let lock, let lease, let ttl), .failed),
            (.renew(let lock, let lease, let ttl), .unknown):
            // Whether or not it was: as long as it was asked for, and not shorter than before.
            let before = locks[lock]?.holds[lease]?.end ?? .distantPast
            locks[lock, default: Lock()].hold(lease, nil, until: max(before, ended(ttl, after: instant)), at: instant)
        case (.acquire(let lock, let mode, _, let wait, let isJoint), .refused(.held)):
            guard !isJoint else {
                // It may have been held for as long as another of them was waited for.
                locks[lock, default: Lock()].mayBeHeld(until: instant)
                return
            }
            guard wait > 0 else { return }
            judge(call, lock, mode, at: instant, faults: faults, into: &violations)
        case (.acquire(let lock, _, let ttl, _, false), .unknown(OperationEnding.abandoned)):
            let heldUntil = locks[lock]?.holds.values.filter { $0.mode == .exclusive }.map(\.end).max()
            let end = locks[lock, default: Lock()].abandoned.left(
                call, at: instant, heldUntil: heldUntil, isOver: ended(ttl, after: instant), recovery: recovery, faults: faults)
            locks[lock, default: Lock()].mayBeHeld(until: end)
        case (.acquire(let lock, _, let ttl, _, _), .failed), (.acquire(let lock, _, let ttl, _, _), .unknown):
            let end = ended(ttl, after: instant)
            locks[lock, default: Lock()].mayBeHeld(until: end)
        case (.renew(let lock, let lease, _), .refused), (.release(let lock, let lease), .done),
            (.release(let lock, let lease), .refused):
            locks[lock]?.end(lease, at: instant)
            locks[lock]?.clockLeases.ended(lease)
        default:
            return
        }
    }

    /// When a lease of so many ms is over that was set at this time at the latest.
    private func ended(_ ttl: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: ttl + Int64(Double(ttl) * clockDrift) + 5)
    }

    private func judge(
        _ call: Call, _ number: Int, _ mode: LeaseMode, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard var lock = locks[number], lock.clockLeases.isEmpty else { return }
        for (place, other) in lock.open.values.enumerated() {
            guard case .acquire(_, let otherMode, let ttl, _, let isJoint) = other.operation else { continue }
            // What is taken together is held while the rest is waited for.
            guard !isJoint else { return }
            if faults.isUnderWay(.silence, sidecar: other.sidecar) {
                let stopped = faults.lastBegin(of: .silence, sidecar: other.sidecar)
                // Before it stopped it may have been granted, and not answered.
                if other.invoked <= stopped {
                    lock.holds[LeaseID(-1 - place)] = Hold(mode: otherMode, end: ended(ttl, after: stopped))
                }
            } else if mode == .shared, otherMode == .exclusive {
                // Writers are not starved by readers.
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
        violations.append(
            Violation(
                Self.promise, at: instant,
                """
                lock \(number): client \(call.client) waited at sidecar \(call.sidecar), though nobody can have kept it out for \
                \(instant.millisecondsRoundedUp(since: freeSince)) ms; \(bound) are promised
                """))
    }
}
