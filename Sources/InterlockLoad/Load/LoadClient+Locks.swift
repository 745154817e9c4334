internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge

extension LoadClient {
    func acquire(_ lock: Int, mode: LeaseMode, due: Instant) {
        let wait = engine.waitMilliseconds
        let call = LockCalls.Acquire(
            name: engine.name(ofLock: lock),
            options: LockOptions(ttl: engine.plan.ttl, wait: engine.plan.wait, mode: mode.lockMode))
        send(.acquire(lock: lock, mode: mode, ttl: engine.ttlMilliseconds, wait: wait), call, due: due) {
            [self] granted, invocation in
            guard let granted else {
                refused(.held, invocation)
                return finishJob()
            }
            let lease = engine.nextLease()
            let validFor = granted.validity.wholeMilliseconds
            let now = done(.granted(lease: lease, fence: granted.fence, validFor: validFor), invocation)
            guard !hasVanished else { return finishJob() }
            hold(
                lock, mode: mode, lease: lease, token: granted.token, fence: granted.fence, validFor: validFor,
                invokedAt: invocation.at, now: now)
        }
        guard isAwaitingAnswer, wait > 0, engine.random.happens(engine.plan.clientBehavior.vanishWhileWaitingProbability) else {
            return
        }
        let pause = Int64(engine.random.unit() * Double(wait))
        plan(at: engine.recorder.now().advanced(byMilliseconds: pause)) { [self] in vanish() }
    }

    private func hold(
        _ lock: Int, mode: LeaseMode, lease: LeaseID, token: String, fence: Int64, validFor: Int64, invokedAt: Instant,
        now: Instant
    ) {
        let plan = engine.plan
        let length = engine.random.duration(in: plan.hold).nanosecondsRounded
        let end = nextEnd()
        let believedUntil = invokedAt.advanced(byMilliseconds: validFor)
        var endsAt = Instant(nanoseconds: now.nanoseconds + length)
        if end == .overstay {
            // The client overstays long enough for another client to get the lock, if one wants it.
            let overstay = (0.05 + engine.random.unit() / 2) * Double(engine.ttlMilliseconds)
            endsAt = max(believedUntil, now).advanced(byMilliseconds: Int64(overstay) + 1)
        }
        var held = HeldLock(
            lock: lock, mode: mode, lease: lease, token: token, fence: fence, grantedAt: now, end: end, endsAt: endsAt,
            believedUntil: believedUntil)
        // Shared holders have several valid fences, so a resource cannot reject the older ones.
        if mode == .exclusive { held.writesAt = Instant(nanoseconds: now.nanoseconds + length / 2) }
        held.scheduleRenewal(validFor: validFor, now: now)
        if held.renewsAt == nil, end == .release, engine.random.happens(plan.clientBehavior.renewProbability) {
            held.renewsAt = Instant(nanoseconds: now.nanoseconds + length / 2)
        }
        // The wait outlasted the validity of the lease, so the client must renew before it may rely on it.
        if believedUntil <= now { held.renewsAt = now }
        self.held = held
        proceed(now: now)
    }

    private func nextEnd() -> HeldLock.End {
        let clientBehavior = engine.plan.clientBehavior
        // One draw decides the end. A well-behaved client draws no number.
        guard
            clientBehavior.forgetProbability + clientBehavior.overstayProbability + clientBehavior.vanishWhileHoldingProbability
                > 0
        else { return .release }
        let point = engine.random.unit()
        if point < clientBehavior.forgetProbability { return .forget }
        if point < clientBehavior.forgetProbability + clientBehavior.overstayProbability { return .overstay }
        return point < clientBehavior.forgetProbability + clientBehavior.overstayProbability
            + clientBehavior.vanishWhileHoldingProbability ? .vanish : .release
    }

    /// Executes the steps that are due, and schedules the next.
    private func proceed(now: Instant) {
        var now = now
        while let held {
            let (step, at) = held.next
            guard at <= now else {
                return plan(at: at) { [self] in proceed(now: engine.recorder.now()) }
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

    /// Behaves like a program that was suspended: it tries to continue with its old lease.
    private func resumeAfterOverstay(_ held: HeldLock, due: Instant, now: Instant) {
        self.held?.end = .release
        self.held?.endsAt = now
        self.held?.writesAt = nil
        renew(held, due: due)
    }

    private func renew(_ held: HeldLock, due: Instant) {
        let call = LockCalls.Renew(name: engine.name(ofLock: held.lock), token: held.token, ttl: engine.plan.ttl)
        send(.renew(lock: held.lock, lease: held.lease, ttl: engine.ttlMilliseconds), call, due: due) {
            [self] validity, invocation in
            guard let validFor = validity?.wholeMilliseconds else {
                lost(now: refused(.lost, invocation))
                return finishJob()
            }
            let now = done(.renewed(validFor: validFor), invocation)
            hasVanished ? finishJob() : renewed(validFor: validFor, invokedAt: invocation.at, now: now)
        }
    }

    private func release(_ held: HeldLock, due: Instant, now: Instant) {
        recordOwnership(held, at: min(now, held.believedUntil))
        self.held = nil
        let call = LockCalls.Release(name: engine.name(ofLock: held.lock), token: held.token)
        send(.release(lock: held.lock, lease: held.lease), call, due: due) { [self] wasHeld, invocation in
            if wasHeld { done(.released, invocation) } else { refused(.lost, invocation) }
            finishJob()
        }
    }

    private func renewed(validFor: Int64, invokedAt: Instant, now: Instant) {
        held?.believedUntil = invokedAt.advanced(byMilliseconds: validFor)
        held?.scheduleRenewal(validFor: validFor, now: now)
        proceed(now: now)
    }

    /// Records that the client no longer relies on the lease.
    private func lost(now: Instant) {
        guard let held else { return }
        recordOwnership(held, at: min(now, held.believedUntil))
    }

    /// Call when the outcome of a renewal is unknown. The lease stays valid until `believedUntil`.
    func renewalFailed(now: Instant) {
        guard var held else { return finishJob() }
        guard now < held.believedUntil else { return release(held, due: now, now: now) }
        if held.endsAt >= held.believedUntil {
            let left = (held.believedUntil.nanoseconds - now.nanoseconds) / 3
            held.renewsAt = Instant(nanoseconds: now.nanoseconds + max(1_000_000, left))
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

/// A lease as its client knows it, and the client's plan for it.
struct HeldLock: Sendable {
    /// How the client gives up the lease.
    enum End: Hashable, Sendable {
        case release
        /// The client never releases the lease, which expires.
        case forget
        /// The client continues after the lease has expired, writes, and tries to renew.
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
    /// The end of the period in which the client considers itself the holder. The validity counts from the request,
    /// which is safe even if the answer is delayed: the lease cannot have begun before the request was sent. Counting
    /// from the answer is safe only if nothing stalls between the sidecar and the client.
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
    mutating func scheduleRenewal(validFor: Int64, now: Instant) {
        renewsAt = nil
        guard end != .overstay, endsAt >= believedUntil else { return }
        renewsAt = now.advanced(byMilliseconds: max(1, validFor / 3))
    }
}

/// Resources guarded by locks. Each accepts a write unless it has accepted a higher fence before.
package struct GuardedResource: Hashable, Sendable {
    private var highest: [Int: Int64] = [:]

    package init() {}

    /// Attempts a write under a lock with the writer's fence. Returns whether it was accepted.
    package mutating func write(lock: Int, fence: Int64) -> Bool {
        guard fence >= highest[lock] ?? .min else { return false }
        highest[lock] = fence
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
