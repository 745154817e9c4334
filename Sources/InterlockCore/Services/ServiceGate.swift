/// Decides whether calls to one service may be made through this sidecar. A call passes the breaker, a check for a free
/// slot, and the limits, in this order, and then takes the slot.
///
/// A call that has to wait for a slot asks the limits only once it has the slot. If the limits refuse it, it gives up
/// the slot and may wait for the limits. A call releases everything that it holds when a later step refuses it or its
/// caller leaves.
///
/// Each method returns the steps that the executor takes next. The gate itself does no I/O and reads no clock.
///
/// The gate is noncopyable, because every call uses it and a copy would be expensive.
package struct ServiceGate: ~Copyable {
    /// The maximum number of unreported permits. It limits memory use when callers do not report outcomes.
    package static let maximumPermits = 25_000
    /// The time within which the breaker should close after a paused call was granted. After that, the next paused call
    /// makes a trial.
    private static let closingMilliseconds: Int64 = 100

    package private(set) var definition: ServiceDefinition
    package var breaker: Breaker
    package var limiter: ServiceLimiter
    package internal(set) var bulkhead: Bulkhead
    package internal(set) var permits = PermitTable()
    var paused: PausedCalls
    /// The subjects that the upstream answered with 429, until their pauses end.
    var subjectPauses = SubjectPauses()
    /// The time before which the upstream asked not to be called.
    var upstreamRetryAt: Instant?
    /// Whether a request to Redis is in flight that opens the breaker for a limit or a `Retry-After`, or closes it
    /// after a limit.
    package internal(set) var isBreakerChangePending = false
    /// The number of requests to Redis for trial permits in flight.
    private var pendingTrialRequestCount = 0
    /// The calls that wait for a slot or through a pause, by number.
    var waitingCalls: [UInt64: GateCall] = [:]
    /// The steps that the current input causes, in addition to the next step of the call itself.
    var effects: [GateStep] = []
    /// Whether the service is still in the configuration.
    package private(set) var isConfigured = true
    /// Whether the sidecar is shutting down. From then on, no call begins to wait.
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
    package mutating func redefine(_ newDefinition: ServiceDefinition) {
        let maximumWaiting = newDefinition.onLimit.maximumWaiting
        if newDefinition.limits != definition.limits || maximumWaiting != definition.onLimit.maximumWaiting {
            limiter.redefine(definitions: newDefinition.limits, maximumWaiting: maximumWaiting)
        }
        if newDefinition.breaker != breaker.settings { subjectPauses = SubjectPauses() }
        breaker.settings = newDefinition.breaker
        bulkhead.resize(slots: newDefinition.concurrency, maximumWaiting: maximumWaiting)
        paused.resize(maximumWaiting: maximumWaiting)
        definition = newDefinition
    }

    /// The number of calls that wait for a slot or through a pause.
    package var waitingCount: Int { bulkhead.waitingCount + paused.count }

    // MARK: - Admission

    /// Returns the refusal of a call that can be refused without a `GateCall`; `nil` if the call needs one.
    /// - Parameter mayWait: whether the caller is willing to wait.
    package mutating func refusal(
        of subject: String?, mayWait: Bool, now: Instant
    ) -> (reason: PermitResult.Reason, retryAfterMilliseconds: Int64)? {
        if !mayWait, case .refuse(let retryAfterMilliseconds) = breaker.admission(now: now) {
            return (.open, retryAfterMilliseconds)
        }
        // Check this before the call asks for a trial or joins a queue, because the pause affects only the call's
        // subject. A forced state takes precedence.
        guard let pauseEnd = subjectPauses.end(of: subject, now: now), breaker.forced(now: now) == nil else {
            return nil
        }
        return (.limited, pauseEnd.millisecondsRoundedUp(since: now))
    }

    /// Admits a new call.
    package mutating func admit(_ call: GateCall, now: Instant) -> GateSteps {
        // New calls queue behind those that wait through a pause.
        let next =
            call.deadline != nil && paused.isActive ? queueBehindPaused(call, now: now) : askBreaker(call, now: now)
        return steps(next)
    }

    /// Continues a call that got a slot or resumes after a pause.
    package mutating func proceed(_ call: GateCall, now: Instant) -> GateSteps {
        let next = askBreaker(call, now: now)
        return steps(next)
    }

    /// Returns the call's next step by the breaker's state.
    private mutating func askBreaker(_ call: GateCall, now: Instant) -> GateStep? {
        switch breaker.admission(now: now) {
        case .refuse(let retryAfterMilliseconds):
            return refusedByBreaker(call, retryAfterMilliseconds: retryAfterMilliseconds, now: now)
        case .requestTrial: return requestTrial(call)
        case .allow:
            call.generation = breaker.snapshot.generation
            return requestLimits(call, now: now)
        }
    }

    /// Queues the call if only a limit keeps the breaker open and the pause ends before the call's deadline. Refuses it
    /// otherwise.
    private mutating func refusedByBreaker(_ call: GateCall, retryAfterMilliseconds: Int64, now: Instant) -> GateStep? {
        release(call, now: now)
        if case .paused(let until) = pauseState(now: now), let deadline = deadline(of: call), until <= deadline,
            pause(call, earliest: now, now: now)
        {
            return nil
        }
        return .refuse(call, .open, retryAfterMilliseconds: retryAfterMilliseconds)
    }

    // MARK: - Trials

    private mutating func requestTrial(_ call: GateCall) -> GateStep {
        call.stage = .trial
        return .requestTrial(call)
    }

    /// Begins a request to Redis for a trial permit. Returns `false`, and does nothing, if `halfOpenPermits` requests
    /// are in flight.
    package mutating func beginTrialRequest() -> Bool {
        guard pendingTrialRequestCount < definition.breaker.halfOpenPermits else { return false }
        pendingTrialRequestCount += 1
        return true
    }

    /// The result of a request to Redis for a trial permit.
    package enum TrialResult: Equatable, Sendable {
        case granted
        case refused
        /// Redis is unreachable, and `whenRedisIsDown` lets calls continue without it.
        case unreachable
    }

    /// Applies the result of a request that `beginTrialRequest` began.
    /// - Parameter expiresAt: the deadline of the trial permit.
    package mutating func trialAnswered(
        _ call: GateCall, _ result: TrialResult, id: PermitID, expiresAt: Instant, now: Instant
    ) -> GateSteps {
        pendingTrialRequestCount -= 1
        let trial: GateCall.Trial
        switch result {
        case .granted:
            // If the breaker is no longer half-open, the permit is void, and `takeSlot` checks the breaker again.
            trial = breaker.snapshot.state == .halfOpen ? .fleet(id, until: expiresAt) : .none
        case .refused:
            if breaker.snapshot.state == .halfOpen {
                breaker.markTrialsExhausted(now: now, forMilliseconds: Breaker.trialRetryMilliseconds)
            }
            guard case .refuse(let retryAfterMilliseconds) = breaker.admission(now: now) else {
                return trialRefused(call, now: now)
            }
            return trialRefused(call, retryAfterMilliseconds: retryAfterMilliseconds, now: now)
        case .unreachable:
            // The open time is over. While Redis is unreachable, this sidecar tries the service with one call at a
            // time.
            let lifetimeMilliseconds = definition.permitLifetime.wholeMilliseconds
            guard let isTrial = breaker.beginTrialLocally(lifetimeMilliseconds: lifetimeMilliseconds, now: now) else {
                return trialRefused(call, now: now)
            }
            trial = isTrial ? .local : .none
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

    /// Queues or refuses a call that got no trial permit.
    package mutating func trialRefused(
        _ call: GateCall, retryAfterMilliseconds: Int64 = Breaker.trialRetryMilliseconds, now: Instant
    ) -> GateSteps {
        guard !call.isOver else { return GateSteps() }
        let next = refusedByBreaker(call, retryAfterMilliseconds: retryAfterMilliseconds, now: now)
        return steps(next)
    }

    /// Records that a request that `beginTrialRequest` began has failed. The executor fails the call.
    package mutating func trialRequestFailed() { pendingTrialRequestCount -= 1 }

    /// Returns the call's trial, if it holds one, to the fleet or to the breaker.
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

    /// Asks the limits about a call that the breaker has admitted, unless the call has to get a slot first.
    /// - Parameter wasLimited: whether a limit has just refused the call. The call then waits in the limiter without a
    ///   slot.
    private mutating func requestLimits(_ call: GateCall, wasLimited: Bool = false, now: Instant) -> GateStep? {
        guard definition.limits.contains(where: { !$0.isPerSubject || call.subject != nil }) else {
            // The limit that opened the breaker may have been removed from the configuration.
            if breaker.isOpenByLimit { effects.append(.closeAfterLimit) }
            return takeSlot(call, now: now)
        }
        // If no slot is free, refuse or queue the call before it takes anything from the limits.
        if !call.hasSlot, !wasLimited, reclaimSlotsAndCheckFull(now: now) { return queueForSlot(call, now: now) }
        // A call that holds a trial or a slot does not wait in the limiter.
        let mayWait = !pausesAtLimit && !call.isTrial && !call.hasSlot
        let waitMilliseconds = mayWait ? deadline(of: call)?.millisecondsRoundedUp(since: now) ?? 0 : 0
        call.stage = .limits
        return .requestLimits(call, waitMilliseconds: waitMilliseconds)
    }

    /// Records that the limits have granted a call, and takes a slot for it.
    package mutating func limitsGranted(_ call: GateCall, now: Instant) -> GateSteps {
        call.isGrantedByLimits = true
        let next = takeSlot(call, now: now)
        return steps(next)
    }

    /// Records that the limits have refused a call, which then waits or is refused.
    package mutating func limitsRefused(_ call: GateCall, retryAfterMilliseconds: Int64, now: Instant) -> GateSteps {
        let heldTrialOrSlot = call.isTrial || call.hasSlot
        release(call, now: now)
        let retryAt = now.advanced(byMilliseconds: retryAfterMilliseconds)
        if heldTrialOrSlot, !pausesAtLimit, let deadline = deadline(of: call), retryAt <= deadline {
            // The call now waits in the limiter. Afterwards it asks for a trial and a slot again.
            call.generation = 0
            let next = requestLimits(call, wasLimited: true, now: now)
            return steps(next)
        }
        if pausesAtLimit, pause(call, earliest: retryAt, now: now) { return steps(nil) }
        return steps(.refuse(call, .limited, retryAfterMilliseconds: retryAfterMilliseconds))
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
            case .refuse(let retryAfterMilliseconds):
                return refusedByBreaker(call, retryAfterMilliseconds: retryAfterMilliseconds, now: now)
            // With the same generation, the call was admitted because Redis is unreachable and cannot count trials.
            case .requestTrial where call.generation != breaker.snapshot.generation: return requestTrial(call)
            case .allow, .requestTrial: call.generation = breaker.snapshot.generation
            }
        }
        if !call.hasSlot {
            // The call refunds the limits before it waits. Otherwise they would count it long before it runs.
            guard !reclaimSlotsAndCheckFull(now: now) else { return queueForSlot(call, now: now) }
            call.hasSlot = bulkhead.enter(call.number, deadline: nil, now: now) == .taken
        }
        guard permits.count < Self.maximumPermits else {
            release(call, now: now)
            return .refuseForUnreported(call)
        }
        return .grant(call)
    }

    /// Issues a permit to a call that the executor grants, and returns the breaker's state.
    package mutating func issue(_ id: PermitID, to call: GateCall, now: Instant) -> BreakerSnapshot.State {
        let lifetimeMilliseconds = definition.permitLifetime.wholeMilliseconds
        if call.trialPermit == nil, breaker.beginCall(lifetimeMilliseconds: lifetimeMilliseconds, now: now) {
            call.trial = .local
        }
        let permit = PermitTable.Permit(
            generation: call.generation, isTrial: call.trialPermit != nil, isLocalTrial: call.trial == .local,
            subject: call.subject, grantedAt: now, expiresAt: now.advanced(byMilliseconds: lifetimeMilliseconds))
        permits.insert(permit, id: id)
        return breaker.actingState(now: now)
    }

    /// Removes and returns a permit whose outcome arrived, even after the permit's lifetime; `nil` if it is unknown.
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

    /// Cancels a call, and releases what it holds. The executor first removes a call in stage `limits` from the
    /// limiter.
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

    /// Records that a call with a deadline was answered or cancelled. If it was the trial after a pause, schedules the
    /// next trial.
    package mutating func callEnded(_ call: GateCall, wasGranted: Bool, now: Instant) -> GateSteps {
        let nextTrialAt = now.advanced(byMilliseconds: Self.closingMilliseconds)
        if paused.sentCallEnded(call.number, wasGranted: wasGranted, retryAt: nextTrialAt) {
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

    /// Returns the steps that have accumulated, followed by the call's own next step.
    mutating func steps(_ next: GateStep?) -> GateSteps {
        guard !effects.isEmpty else { return GateSteps(next: next) }
        let before = effects
        effects = []
        return GateSteps(before: before, next: next)
    }
}
