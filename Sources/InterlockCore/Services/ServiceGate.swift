/// Decides whether calls to one service may be made through this sidecar. A call passes the breaker, a check for a free
/// slot, and the limits, in this order, and then takes the slot.
///
/// A call that has to wait for a slot requests the limits only once it has one. If they refuse it, it gives up the slot
/// and may wait for the limits. A call releases everything that it holds when a later step refuses it or its caller
/// leaves.
///
/// Each input returns the steps that the executor takes next. The gate itself does no I/O and reads no clock.
///
/// Noncopyable, because every call uses it and a copy would be expensive.
package struct ServiceGate: ~Copyable {
    /// The maximum number of unreported permits. It limits memory use when callers do not report outcomes.
    package static let maximumPermits = 25_000
    /// The time that the breaker has to close after a paused call was granted, in milliseconds. After that, the next
    /// paused call tries.
    private static let closingMilliseconds: Int64 = 100

    package private(set) var definition: ServiceDefinition
    package var breaker: Breaker
    package var limiter: ServiceLimiter
    package internal(set) var bulkhead: Bulkhead
    package internal(set) var permits = PermitTable()
    var paused: PausedCalls
    /// The subjects that the upstream answered with 429, until it accepts their calls again.
    var subjectPauses = SubjectPauses()
    /// The time before which the upstream asked not to be called.
    var upstreamRetryAt: Instant?
    /// Whether a request to Redis is pending that opens the breaker for a limit or a pause, or closes it after a limit.
    package internal(set) var isBreakerChangePending = false
    /// The number of pending requests to Redis for trial permits.
    private var pendingTrialRequests = 0
    /// The calls that wait for a slot or through a pause, by number.
    var waitingCalls: [UInt64: GateCall] = [:]
    /// The steps that the current input causes, in addition to the call's own step.
    var effects: [GateStep] = []
    /// Whether the service is still in the configuration.
    package private(set) var isConfigured = true
    /// Whether the sidecar is shutting down. No call starts to wait then.
    package var isShuttingDown = false

    package init(definition: ServiceDefinition) {
        self.definition = definition
        breaker = Breaker(settings: definition.breaker)
        let maximumWaiting = definition.onLimit.maximumWaiting
        limiter = ServiceLimiter(definitions: definition.limits, maximumWaiting: maximumWaiting)
        bulkhead = Bulkhead(slots: definition.concurrency, maximumWaiting: maximumWaiting)
        paused = PausedCalls(maximumWaiting: maximumWaiting)
    }

    /// Applies a new definition. Keeps the breaker's state and the waiting calls.
    package mutating func redefine(_ new: ServiceDefinition) {
        let maximumWaiting = new.onLimit.maximumWaiting
        if new.limits != definition.limits || maximumWaiting != definition.onLimit.maximumWaiting {
            limiter = limiter.redefined(definitions: new.limits, maximumWaiting: maximumWaiting)
        }
        if new.breaker != breaker.settings { subjectPauses = SubjectPauses() }
        breaker.settings = new.breaker
        bulkhead.resize(slots: new.concurrency, maximumWaiting: maximumWaiting)
        paused.resize(maximumWaiting: maximumWaiting)
        definition = new
    }

    /// The number of calls that wait for a slot or through a pause.
    package var waitingCount: Int { bulkhead.waitingCount + paused.count }

    // MARK: - Admission

    /// Returns the refusal of a call if no `GateCall` is needed to refuse it; `retryAfter` is in milliseconds.
    /// - Parameter mayWait: whether the caller is willing to wait.
    package mutating func refusal(
        of subject: String?, mayWait: Bool, now: Instant
    ) -> (reason: PermitResult.Reason, retryAfter: Int64)? {
        if !mayWait, case .refuse(let retryAfter) = breaker.admission(now: now) { return (.open, retryAfter) }
        // Checked before the call asks for a trial or joins a queue, because the pause affects only its subject. A
        // forced state takes precedence.
        guard let end = subjectPauses.end(of: subject, now: now), breaker.forced(now: now) == nil else { return nil }
        return (.limited, end.millisecondsRoundedUp(since: now))
    }

    /// Admits a new call.
    package mutating func admit(_ call: GateCall, now: Instant) -> GateSteps {
        // New calls queue behind those that wait through a pause.
        let next = call.deadline != nil && paused.isActive ? queueBehindPaused(call, now: now) : askBreaker(call, now: now)
        return steps(next)
    }

    /// Continues a call that got a slot or was resumed after a pause.
    package mutating func proceed(_ call: GateCall, now: Instant) -> GateSteps {
        let next = askBreaker(call, now: now)
        return steps(next)
    }

    private mutating func askBreaker(_ call: GateCall, now: Instant) -> GateStep? {
        switch breaker.admission(now: now) {
        case .refuse(let retryAfter): return refusedByBreaker(call, retryAfter: retryAfter, now: now)
        case .requestTrial: return requestTrial(call)
        case .allow:
            call.generation = breaker.snapshot.generation
            return requestLimits(call, now: now)
        }
    }

    /// Queues the call if only a limit keeps the breaker open and the pause ends before the call's deadline. Refuses it
    /// otherwise.
    private mutating func refusedByBreaker(_ call: GateCall, retryAfter: Int64, now: Instant) -> GateStep? {
        release(call, now: now)
        if case .paused(let until) = pauseState(now: now), let deadline = deadline(of: call), until <= deadline,
            pause(call, earliest: now, now: now)
        {
            return nil
        }
        return .refuse(call, .open, retryAfter: retryAfter)
    }

    // MARK: - Trials

    private mutating func requestTrial(_ call: GateCall) -> GateStep {
        call.stage = .trial
        return .requestTrial(call)
    }

    /// Returns whether to request a trial permit from Redis, and if so, counts the request as pending. At most
    /// `halfOpenPermits` requests are pending at a time.
    package mutating func beginTrialRequest() -> Bool {
        guard pendingTrialRequests < definition.breaker.halfOpenPermits else { return false }
        pendingTrialRequests += 1
        return true
    }

    /// The result of a request to Redis for a trial permit.
    package enum TrialResult: Equatable, Sendable {
        case granted
        case refused
        /// Redis is unreachable, and `whenRedisIsDown` lets calls continue without it.
        case unreachable
    }

    /// Applies the answer to a request that `beginTrialRequest` allowed.
    /// - Parameter expiresAt: the deadline of the trial permit.
    package mutating func trialAnswered(
        _ call: GateCall, _ answer: TrialResult, id: PermitID, expiresAt: Instant, now: Instant
    ) -> GateSteps {
        pendingTrialRequests -= 1
        let trial: GateCall.Trial
        switch answer {
        case .granted:
            // The breaker may no longer be half-open. The permit is void then, and `takeSlot` checks the breaker again.
            trial = breaker.snapshot.state == .halfOpen ? .fleet(id, until: expiresAt) : .none
        case .refused:
            if breaker.snapshot.state == .halfOpen {
                breaker.markTrialsExhausted(now: now, forMilliseconds: Breaker.trialRetryMilliseconds)
            }
            guard case .refuse(let retryAfter) = breaker.admission(now: now) else { return trialRefused(call, now: now) }
            return trialRefused(call, retryAfter: retryAfter, now: now)
        case .unreachable:
            // The open time is over. Without Redis, this sidecar tries the service with one call at a time.
            let lifetime = definition.permitLifetime.wholeMilliseconds
            guard let isLocal = breaker.beginTrialLocally(lifetimeMilliseconds: lifetime, now: now) else {
                return trialRefused(call, now: now)
            }
            trial = isLocal ? .local : .none
        }
        call.generation = breaker.snapshot.generation
        call.trial = trial
        guard !call.isOver else {
            returnTrial(of: call)
            return steps(nil)
        }
        let next = call.isGrantedByLimits ? takeSlot(call, now: now) : requestLimits(call, now: now)
        return steps(next)
    }

    /// Queues or refuses a call for which no trial permit was requested or granted.
    package mutating func trialRefused(
        _ call: GateCall, retryAfter: Int64 = Breaker.trialRetryMilliseconds, now: Instant
    ) -> GateSteps {
        guard !call.isOver else { return GateSteps() }
        let next = refusedByBreaker(call, retryAfter: retryAfter, now: now)
        return steps(next)
    }

    /// Call when a request for a trial permit failed. The executor fails the call.
    package mutating func trialRequestFailed() { pendingTrialRequests -= 1 }

    private mutating func returnTrial(of call: GateCall) {
        switch call.trial {
        case .none: return
        case .fleet(let id, _): effects.append(.returnTrial(id, generation: call.generation))
        case .local: breaker.localTrialWasNotMade()
        }
        call.trial = .none
        call.generation = 0
    }

    // MARK: - Limits

    /// Asks the limits about a call that the breaker has admitted, unless it has to get a slot first.
    /// - Parameter wasLimited: whether a limit has just refused the call. It then waits in the limiter without a slot.
    private mutating func requestLimits(_ call: GateCall, wasLimited: Bool = false, now: Instant) -> GateStep? {
        guard definition.limits.contains(where: { !$0.isPerSubject || call.subject != nil }) else {
            // The limit that opened the breaker may have been removed from the configuration.
            if breaker.isOpenByLimit { effects.append(.closeAfterLimit) }
            return takeSlot(call, now: now)
        }
        // If no slot is free, the call is refused or queued before it takes anything from the limits.
        if !call.hasSlot, !wasLimited, isFull(now: now) { return queueForSlot(call, now: now) }
        // A call that holds a trial or a slot does not wait in the limiter.
        let mayWait = !pausesAtLimit && !call.isTrial && !call.hasSlot
        let wait = mayWait ? deadline(of: call)?.millisecondsRoundedUp(since: now) ?? 0 : 0
        call.stage = .limits
        return .requestLimits(call, waitMilliseconds: wait)
    }

    /// Call when the limits granted a call. The call then takes a slot.
    package mutating func limitsGranted(_ call: GateCall, now: Instant) -> GateSteps {
        call.isGrantedByLimits = true
        let next = takeSlot(call, now: now)
        return steps(next)
    }

    /// Call when the limits refused a call; `retryAfter` is in milliseconds.
    package mutating func limitsRefused(_ call: GateCall, retryAfter: Int64, now: Instant) -> GateSteps {
        let heldTrialOrSlot = call.isTrial || call.hasSlot
        release(call, now: now)
        let retryAt = now.advanced(byMilliseconds: retryAfter)
        if heldTrialOrSlot, !pausesAtLimit, let deadline = deadline(of: call), retryAt <= deadline {
            // The call now waits in the limiter, and asks for a trial and a slot again afterwards.
            call.generation = 0
            let next = requestLimits(call, wasLimited: true, now: now)
            return steps(next)
        }
        if pausesAtLimit, pause(call, earliest: retryAt, now: now) { return steps(nil) }
        return steps(.refuse(call, .limited, retryAfter: retryAfter))
    }

    /// Whether a reached limit pauses the service, so that calls wait through the pause and not in the limiter.
    private var pausesAtLimit: Bool {
        definition.onLimit.action == .trip && breaker.snapshot.forced == nil && !breaker.settings.isMetricsOnly
    }

    // MARK: - Slots and permits

    /// Takes a slot for a call that the limits have granted. Checks the breaker again, because its state may have
    /// changed.
    private mutating func takeSlot(_ call: GateCall, now: Instant) -> GateStep? {
        guard isConfigured else {
            release(call, now: now)
            return .failUnconfigured(call)
        }
        if case .fleet(_, let until) = call.trial, call.generation != breaker.snapshot.generation || until <= now {
            // The breaker has a new generation, or the trial permit has lapsed and may belong to another call.
            returnTrial(of: call)
        }
        if !call.isTrial {
            switch breaker.admission(now: now) {
            case .refuse(let retryAfter): return refusedByBreaker(call, retryAfter: retryAfter, now: now)
            // With the same generation, the call was admitted because Redis is unreachable and cannot count trials.
            case .requestTrial where call.generation != breaker.snapshot.generation: return requestTrial(call)
            case .allow, .requestTrial: call.generation = breaker.snapshot.generation
            }
        }
        if !call.hasSlot {
            // The call refunds the limits before it waits. Otherwise they would count it long before it is made.
            guard !isFull(now: now) else { return queueForSlot(call, now: now) }
            call.hasSlot = bulkhead.enter(call.number, deadline: nil, now: now) == .taken
        }
        guard permits.count < Self.maximumPermits else {
            release(call, now: now)
            return .refuseForUnreported(call)
        }
        return .grant(call)
    }

    /// Issues the permit of a call that is being granted, and returns the breaker's state.
    package mutating func issue(_ id: PermitID, to call: GateCall, now: Instant) -> BreakerSnapshot.State {
        let lifetime = definition.permitLifetime.wholeMilliseconds
        if call.trialPermit == nil, breaker.beginCall(lifetimeMilliseconds: lifetime, now: now) { call.trial = .local }
        let permit = PermitTable.Permit(
            generation: call.generation, isTrial: call.trialPermit != nil, isLocalTrial: call.trial == .local,
            subject: call.subject, grantedAt: now, expiresAt: now.advanced(byMilliseconds: lifetime))
        permits.insert(permit, id: id)
        return breaker.actingState(now: now)
    }

    /// Removes and returns the permit of a reported call, even if it is past its lifetime; `nil` if it is unknown.
    /// `freeSlot` must follow.
    package mutating func removePermit(_ id: PermitID) -> PermitTable.Permit? { permits.remove(id) }

    /// Withdraws a permit whose caller has left, and releases what the call holds.
    package mutating func withdraw(_ id: PermitID, from call: GateCall, now: Instant) -> GateSteps {
        _ = permits.remove(id)
        release(call, now: now)
        return steps(nil)
    }

    // MARK: - Ends

    /// Releases what the call holds. The executor then fails the call.
    package mutating func abandon(_ call: GateCall, now: Instant) -> GateSteps {
        release(call, now: now)
        return steps(nil)
    }

    /// Cancels a call and releases what it holds. The executor first removes a call in stage `limits` from the limiter.
    package mutating func cancel(_ call: GateCall, now: Instant) -> GateSteps {
        switch call.stage {
        case .slot: _ = bulkhead.remove(call.number)
        case .pause: _ = paused.remove(call.number)
        case .ready, .trial, .limits, .over: break
        }
        waitingCalls[call.number] = nil
        call.stage = .over
        release(call, now: now)
        return steps(nil)
    }

    /// Call when a call that had a deadline has ended. If it was the trial after a pause, schedules the next one.
    package mutating func ended(_ call: GateCall, wasGranted: Bool, now: Instant) -> GateSteps {
        let nextTrialAt = now.advanced(byMilliseconds: Self.closingMilliseconds)
        if paused.returned(call.number, wasGranted: wasGranted, retryAt: nextTrialAt) {
            effects.append(.wakeForPause(at: wasGranted ? nextTrialAt : now))
        }
        return steps(nil)
    }

    /// Removes and returns all calls that wait for a slot or through a pause. The executor fails them.
    package mutating func removeWaiting() -> [GateCall] {
        (bulkhead.removeAll() + paused.removeAll()).compactMap { waitingCalls.removeValue(forKey: $0) }
    }

    /// Closes the gate of a service that was removed from the configuration. Returns the calls that wait for a slot or
    /// through a pause; the executor fails them.
    package mutating func close() -> [GateCall] {
        isConfigured = false
        permits = PermitTable()
        return removeWaiting()
    }

    /// The deadline of the call's wait; `nil` if it may not wait.
    func deadline(of call: GateCall) -> Instant? { isShuttingDown || !isConfigured ? nil : call.deadline }

    /// Releases the call's trial, its part of the limits, and its slot.
    mutating func release(_ call: GateCall, now: Instant) {
        returnTrial(of: call)
        if call.isGrantedByLimits {
            effects.append(.refund(call))
            call.isGrantedByLimits = false
        }
        guard call.hasSlot else { return }
        call.hasSlot = false
        bulkhead.release(heldForMilliseconds: nil)
        assignSlots(now: now)
    }

    mutating func steps(_ next: GateStep?) -> GateSteps {
        guard !effects.isEmpty else { return GateSteps(next: next) }
        let before = effects
        effects = []
        return GateSteps(before: before, next: next)
    }
}
