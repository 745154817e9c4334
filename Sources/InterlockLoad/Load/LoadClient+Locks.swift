internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge

extension LoadClient {
    /// Requests a lock, then holds it.
    func acquire(_ lock: Int, mode: LeaseMode, due: Instant) {
        let waitMilliseconds = engine.waitMilliseconds
        let call = LockCalls.Acquire(
            name: engine.name(ofLock: lock),
            options: LockOptions(ttl: engine.plan.ttl, wait: engine.plan.wait, mode: mode.lockMode))
        let operation = Operation.acquire(
            lock: lock, mode: mode, ttlMilliseconds: engine.ttlMilliseconds, waitMilliseconds: waitMilliseconds)
        send(operation, call, due: due) { [self] granted, invocation in
            guard let granted else {
                recordRefusal(.held, of: invocation)
                return finishJob()
            }
            let lease = engine.nextLease()
            let validForMilliseconds = granted.validity.wholeMilliseconds
            let success = OperationSuccess.granted(
                lease: lease, fence: granted.fence, validForMilliseconds: validForMilliseconds)
            let now = recordSuccess(success, of: invocation)
            guard !hasVanished else { return finishJob() }
            hold(
                lock, mode: mode, lease: lease, token: granted.token, fence: granted.fence,
                validForMilliseconds: validForMilliseconds, invokedAt: invocation.at, now: now)
        }
        guard isAwaitingAnswer, waitMilliseconds > 0,
            engine.random.happens(engine.plan.clientBehavior.vanishWhileWaitingProbability)
        else { return }
        let pauseMilliseconds = Int64(engine.random.unit() * Double(waitMilliseconds))
        schedule(at: engine.recorder.now().advanced(byMilliseconds: pauseMilliseconds)) { [self] in vanish() }
    }

    private func hold(
        _ lock: Int, mode: LeaseMode, lease: LeaseID, token: String, fence: Int64, validForMilliseconds: Int64,
        invokedAt: Instant, now: Instant
    ) {
        let plan = engine.plan
        let holdNanoseconds = engine.random.duration(in: plan.hold).nanosecondsRounded
        let end = nextEnd()
        let believedUntil = invokedAt.advanced(byMilliseconds: validForMilliseconds)
        var endsAt = Instant(nanoseconds: now.nanoseconds + holdNanoseconds)
        if end == .overstay {
            // The client overstays long enough for a waiting client to acquire the lock.
            let overstayMilliseconds = (0.05 + engine.random.unit() / 2) * Double(engine.ttlMilliseconds)
            endsAt = max(believedUntil, now).advanced(byMilliseconds: Int64(overstayMilliseconds) + 1)
        }
        var held = HeldLock(
            lock: lock, mode: mode, lease: lease, token: token, fence: fence, grantedAt: now, end: end, endsAt: endsAt,
            believedUntil: believedUntil)
        // The holders of a shared lock have different valid fences, so a resource cannot reject a lower one.
        if mode == .exclusive { held.writesAt = Instant(nanoseconds: now.nanoseconds + holdNanoseconds / 2) }
        held.scheduleRenewal(validForMilliseconds: validForMilliseconds, now: now)
        if held.renewsAt == nil, end == .release, engine.random.happens(plan.clientBehavior.renewProbability) {
            held.renewsAt = Instant(nanoseconds: now.nanoseconds + holdNanoseconds / 2)
        }
        // The wait lasted longer than the lease is valid, so the client must renew the lease before it relies on it.
        if believedUntil <= now { held.renewsAt = now }
        self.held = held
        proceed(now: now)
    }

    private func nextEnd() -> HeldLock.End {
        let behavior = engine.plan.clientBehavior
        // The cumulative probabilities of the unusual ends. One draw decides among them; well-behaved clients draw
        // nothing.
        let forget = behavior.forgetProbability
        let overstay = forget + behavior.overstayProbability
        let vanish = overstay + behavior.vanishWhileHoldingProbability
        guard vanish > 0 else { return .release }
        let point = engine.random.unit()
        if point < forget { return .forget }
        if point < overstay { return .overstay }
        return point < vanish ? .vanish : .release
    }

    /// Executes the steps that are due, and schedules the next.
    private func proceed(now: Instant) {
        var now = now
        while let held {
            let (step, at) = held.next
            guard at <= now else {
                return schedule(at: at) { [self] in proceed(now: engine.recorder.now()) }
            }
            switch step {
            case .write:
                self.held?.writesAt = nil
                if now < held.believedUntil { now = write(held) }
            case .renew:
                self.held?.renewsAt = nil
                return renew(held, due: at)
            case .end:
                return endHold(held, due: at, now: now)
            }
        }
    }

    private func write(_ held: HeldLock) -> Instant {
        let isAccepted = engine.resource.write(lock: held.lock, fence: held.fence)
        return engine.recorder.record(
            .wrote(client: number, lock: held.lock, lease: held.lease, fence: held.fence, isAccepted: isAccepted))
    }

    private func endHold(_ held: HeldLock, due: Instant, now: Instant) {
        switch held.end {
        case .release:
            release(held, due: due, now: now)
        case .forget:
            recordOwnership(held, at: held.believedUntil)
            finishJob()
        case .overstay:
            recordOwnership(held, at: held.believedUntil)
            if held.mode == .exclusive { _ = write(held) }
            resumeAfterOverstay(held, due: due, now: now)
        case .vanish:
            recordOwnership(held, at: held.believedUntil)
            vanish()
        }
    }

    /// Behaves like a program that was suspended and then tries to continue with its old lease.
    private func resumeAfterOverstay(_ held: HeldLock, due: Instant, now: Instant) {
        self.held?.end = .release
        self.held?.endsAt = now
        self.held?.writesAt = nil
        renew(held, due: due)
    }

    private func renew(_ held: HeldLock, due: Instant) {
        let call = LockCalls.Renew(name: engine.name(ofLock: held.lock), token: held.token, ttl: engine.plan.ttl)
        send(.renew(lock: held.lock, lease: held.lease, ttlMilliseconds: engine.ttlMilliseconds), call, due: due) {
            [self] validity, invocation in
            guard let validForMilliseconds = validity?.wholeMilliseconds else {
                leaseLost(now: recordRefusal(.lost, of: invocation))
                return finishJob()
            }
            let now = recordSuccess(.renewed(validForMilliseconds: validForMilliseconds), of: invocation)
            guard !hasVanished else { return finishJob() }
            leaseRenewed(validForMilliseconds: validForMilliseconds, invokedAt: invocation.at, now: now)
        }
    }

    private func release(_ held: HeldLock, due: Instant, now: Instant) {
        recordOwnership(held, at: min(now, held.believedUntil))
        self.held = nil
        let call = LockCalls.Release(name: engine.name(ofLock: held.lock), token: held.token)
        send(.release(lock: held.lock, lease: held.lease), call, due: due) { [self] wasHeld, invocation in
            if wasHeld { recordSuccess(.released, of: invocation) } else { recordRefusal(.lost, of: invocation) }
            finishJob()
        }
    }

    private func leaseRenewed(validForMilliseconds: Int64, invokedAt: Instant, now: Instant) {
        held?.believedUntil = invokedAt.advanced(byMilliseconds: validForMilliseconds)
        held?.scheduleRenewal(validForMilliseconds: validForMilliseconds, now: now)
        proceed(now: now)
    }

    /// Records that the client no longer relies on the lease.
    private func leaseLost(now: Instant) {
        guard let held else { return }
        recordOwnership(held, at: min(now, held.believedUntil))
    }

    /// Handles a renewal that failed or got no answer. The lease stays valid until `believedUntil`.
    func renewalFailed(now: Instant) {
        guard var held else { return finishJob() }
        guard now < held.believedUntil else { return release(held, due: now, now: now) }
        if held.endsAt >= held.believedUntil {
            let pauseNanoseconds = (held.believedUntil.nanoseconds - now.nanoseconds) / 3
            held.renewsAt = Instant(nanoseconds: now.nanoseconds + max(1_000_000, pauseNanoseconds))
        }
        self.held = held
        proceed(now: now)
    }

    private func recordOwnership(_ held: HeldLock, at end: Instant) {
        guard end > held.grantedAt else { return }
        engine.measures.ownership.recordHold(
            lock: held.lock, client: number, sidecar: sidecar, fence: held.fence, from: held.grantedAt, to: end)
    }
}

/// A lease as its holder knows it, with the steps that the holder plans.
struct HeldLock: Sendable {
    /// How the client gives up the lease.
    enum End: Hashable, Sendable {
        case release
        /// The client does nothing, and the lease expires.
        case forget
        /// The client writes after the lease has expired, and then tries to renew the lease.
        case overstay
        /// The client closes the connection.
        case vanish
    }

    /// A step of the plan.
    enum Step: Hashable, Sendable {
        case write
        case renew
        case end
    }

    let lock: Int
    let mode: LeaseMode
    let lease: LeaseID
    let token: String
    let fence: Int64
    let grantedAt: Instant
    var end: End
    var endsAt: Instant
    /// The time until which the client considers itself the holder. The validity counts from the request. That is safe
    /// even if the answer is delayed, because the lease cannot have begun before the client sent the request.
    var believedUntil: Instant
    var writesAt: Instant?
    var renewsAt: Instant?

    /// The next step and its time.
    var next: (step: Step, at: Instant) {
        var next = (step: Step.end, at: endsAt)
        if let renewsAt, renewsAt <= next.at { next = (.renew, renewsAt) }
        if let writesAt, writesAt <= next.at { next = (.write, writesAt) }
        return next
    }

    /// Schedules a renewal at a third of the validity if the lease would expire before `endsAt`.
    /// - Parameter validForMilliseconds: the validity of the lease.
    mutating func scheduleRenewal(validForMilliseconds: Int64, now: Instant) {
        renewsAt = nil
        guard end != .overstay, endsAt >= believedUntil else { return }
        renewsAt = now.advanced(byMilliseconds: max(1, validForMilliseconds / 3))
    }
}

/// The resources that locks guard. Each accepts a write unless it has accepted a higher fence before.
package struct GuardedResource: Hashable, Sendable {
    private var highestFences: [Int: Int64] = [:]

    package init() {}

    /// Attempts a write with the fence of the writer's lease. Returns whether the resource accepts the write.
    package mutating func write(lock: Int, fence: Int64) -> Bool {
        guard fence >= highestFences[lock] ?? .min else { return false }
        highestFences[lock] = fence
        return true
    }
}

extension LeaseMode {
    fileprivate var lockMode: LockMode {
        switch self {
        case .exclusive: .exclusive
        case .shared: .shared
        case .permits(let slots): .permits(slots)
        }
    }
}
