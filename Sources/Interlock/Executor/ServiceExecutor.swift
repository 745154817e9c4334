internal import CoreMetrics
internal import DequeModule
internal import InterlockCore
internal import Logging
internal import RedisClient

/// Executes the steps that each `ServiceGate` decides: runs the scripts of limits and breakers, sets timers and answers
/// callers. Confined to the coordinator's event loop.
final class ServiceExecutor {
    /// The minimum time, in milliseconds, between two log entries about the unreported permits of one service.
    private static let warningIntervalMilliseconds: Int64 = 60_000

    let runtime: CoordinatorRuntime
    let publisher: EventPublisher

    // Permits
    /// The unanswered calls that may wait, by number.
    private var waitingCalls: [UInt64: (service: GuardedService, call: GateCall)] = [:]
    private var lastCallNumber: UInt64 = 0

    // Limits
    /// The services to flush at the end of this tick.
    var servicesToFlush: [GuardedService] = []
    /// The number of services whose limiter is backed up; see `ServiceLimiter.isBackedUp`.
    var backedUpServices = 0
    /// A buffer that is reused between batches.
    var resolutions: [ServiceLimiter.CallResolution] = []
    /// While a batch is delivered, the time at which it was sent to Redis or decided without Redis; otherwise `nil`.
    var limitsRequestedAt: Instant?

    // Breakers
    /// The services whose breaker is still to be read, in order.
    var pendingReads: Deque<GuardedService> = []
    var readsInFlight = 0
    var isStartingReads = false

    init(runtime: CoordinatorRuntime, publisher: EventPublisher) {
        self.runtime = runtime
        self.publisher = publisher
    }

    // MARK: Permits

    /// Requests a permit. Returns the number with which to cancel the call; `nil` if the call was answered or cannot
    /// wait.
    func acquirePermit(
        _ service: GuardedService, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<PermitResult>
    ) -> UInt64? {
        if let refusal = service.gate.refusal(of: subject, mayWait: waitMilliseconds > 0, now: now) {
            service.metrics.countRefusal(refusal.reason)
            let state = service.gate.breaker.actingState(now: now)
            completion(.refused(refusal.reason, state: state, retryAfterMilliseconds: refusal.retryAfterMilliseconds))
            return nil
        }
        lastCallNumber += 1
        let call = GateCall(
            number: lastCallNumber, cost: cost, subject: subject,
            deadline: waitMilliseconds > 0 ? now.advanced(byMilliseconds: waitMilliseconds) : nil,
            callerKey: service.permitCallers.insert(GuardedService.PermitCaller(completion: completion)))
        if call.deadline != nil { waitingCalls[call.number] = (service, call) }
        execute(service.gate.admit(call, now: now), of: service, now: now)
        return call.isOver || call.deadline == nil ? nil : call.number
    }

    /// Cancels an unanswered call and releases its slot, trial permit and charges.
    func cancelPermit(_ number: UInt64) {
        guard let (service, call) = waitingCalls.removeValue(forKey: number) else { return }
        if let key = call.limitsKey { cancelTake(key, of: service) }
        let now = runtime.time.now()
        execute(service.gate.cancel(call, now: now), of: service, now: now)
        _ = service.permitCallers.remove(call.callerKey)
        execute(service.gate.callEnded(call, wasGranted: false, now: now), of: service, now: now)
    }

    /// Records the reported outcome of a call. Calls `completion` with the breaker's new state.
    func report(
        _ service: GuardedService, permit id: PermitID, _ report: OutcomeReport,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let now = runtime.time.now()
        guard let permit = service.gate.removePermit(id) else { return completion.refuse(unknownPermitOf: service) }
        defer {
            let heldMilliseconds = now.millisecondsRoundedUp(since: permit.grantedAt)
            execute(service.gate.freeSlot(heldForMilliseconds: heldMilliseconds, now: now), of: service, now: now)
        }
        guard permit.expiresAt > now else { return completion.refuse(unknownPermitOf: service) }
        service.metrics.record(service.gate.definition.breaker.effectiveOutcome(report.outcome, status: report.status))
        record(report, of: permit, id: id, service, now: now, completion: completion)
    }

    // MARK: Steps

    /// Executes the steps in order. Returns whether the call keeps the amounts that it took from the limits, because
    /// its permit was delivered or it requests a trial permit.
    @discardableResult
    func execute(
        _ steps: GateSteps, of service: GuardedService, now: Instant, charges: () -> [CounterCharge] = { [] }
    ) -> Bool {
        for step in steps.before { _ = execute(step, of: service, now: now) { [] } }
        if !service.proceeding.isEmpty { proceed(service) }
        guard let ownStep = steps.next else { return false }
        let isKept = execute(ownStep, of: service, now: now, charges: charges)
        if case .proceed = ownStep { proceed(service) }
        return isKept
    }

    /// Continues the calls that got a slot or were resumed, one at a time. Each may pass its slot on to the next call.
    private func proceed(_ service: GuardedService) {
        guard !service.isProceeding else { return }
        service.isProceeding = true
        let now = runtime.time.now()
        while let call = service.proceeding.popFirst() {
            if !call.isOver { execute(service.gate.proceed(call, now: now), of: service, now: now) }
        }
        service.isProceeding = false
        // The permits that were just issued may be the next to lapse.
        if let due = service.gate.nextSlotTimer { setSlotTimer(of: service, at: due) }
    }

    private func execute(
        _ step: GateStep, of service: GuardedService, now: Instant, charges: () -> [CounterCharge]
    ) -> Bool {
        switch step {
        case .proceed(let call):
            service.proceeding.append(call)
        case .requestTrial(let call), .requestLimits(let call, _), .grant(let call), .refuse(let call, _, _),
            .refuseForUnreported(let call), .failUnconfigured(let call):
            return !call.isOver && execute(step, for: call, of: service, now: now, charges: charges)
        case .refund(let call):
            guard let charges = service.permitCallers[call.callerKey]?.charges, !charges.isEmpty else { break }
            service.permitCallers[call.callerKey]?.charges = []
            refund(service, charges)
        case .returnTrial(let id, let generation):
            returnTrial(id, of: service, generation: generation)
        case .closeAfterLimit:
            closeAfterLimit(service)
        case .wakeForSlots(let instant):
            setSlotTimer(of: service, at: instant)
        case .wakeForPause(let instant):
            service.pauseTimer.set(at: instant, on: runtime.deadlines) { [unowned self, unowned service] in
                resume(service)
            }
        }
        return false
    }

    /// Executes a step of a call that was not answered yet.
    private func execute(
        _ step: GateStep, for call: GateCall, of service: GuardedService, now: Instant, charges: () -> [CounterCharge]
    ) -> Bool {
        switch step {
        case .requestTrial:
            let takenCharges = charges()
            if !takenCharges.isEmpty { service.permitCallers[call.callerKey]?.charges = takenCharges }
            requestTrial(call, of: service)
            return true
        case .requestLimits(_, let waitMilliseconds):
            requestLimits(call, of: service, waitMilliseconds: waitMilliseconds, now: now)
        case .grant: return grant(call, of: service, now: now)
        case .refuse(_, let reason, let retryAfterMilliseconds):
            refuse(call, of: service, reason, retryAfterMilliseconds: retryAfterMilliseconds, now: now)
        case .refuseForUnreported:
            logUnreported(service, now: now)
            refuse(call, of: service, .busy, retryAfterMilliseconds: Breaker.forcedRetryMilliseconds, now: now)
        case .failUnconfigured: answer(call, of: service, .failed(.unconfigured(service.name)))
        case .proceed, .refund, .returnTrial, .closeAfterLimit, .wakeForSlots, .wakeForPause: break
        }
        return false
    }

    private func setSlotTimer(of service: GuardedService, at instant: Instant) {
        service.slotTimer.set(at: instant, on: runtime.deadlines) { [unowned self, unowned service] in
            slotTimerFired(of: service)
        }
    }

    private func requestTrial(_ call: GateCall, of service: GuardedService) {
        let now = runtime.time.now()
        let lifetimeMilliseconds = service.gate.definition.permitLifetime.wholeMilliseconds
        let expiresAt = now.advanced(byMilliseconds: lifetimeMilliseconds)
        let id = PermitID(runtime.entropy.drawPair())
        guard service.gate.beginTrialRequest() else {
            execute(service.gate.trialRefused(call, now: now), of: service, now: now)
            return
        }
        let operation = BreakerOperation.trial(
            id: id.description, lifetimeMilliseconds: lifetimeMilliseconds,
            knownGeneration: service.gate.breaker.snapshot.generation)
        run(operation, on: service) { [self] result in
            let now = runtime.time.now()
            let trialResult: ServiceGate.TrialResult
            switch result {
            case .success(let reply): trialResult = reply.tookEffect ? .granted : .refused
            case .failure(let error):
                guard error.isUnavailability, service.gate.definition.whenRedisIsDown != .deny else {
                    service.gate.trialRequestFailed()
                    return fail(call, of: service, InterlockError(error))
                }
                trialResult = .unreachable
            }
            let steps = service.gate.trialAnswered(call, trialResult, id: id, expiresAt: expiresAt, now: now)
            execute(steps, of: service, now: now)
        }
    }

    private func requestLimits(_ call: GateCall, of service: GuardedService, waitMilliseconds: Int64, now: Instant) {
        let key = take(
            service, cost: call.cost, subject: call.subject, waitMilliseconds: waitMilliseconds, now: now,
            caller: .permit(call))
        // The limits may have answered immediately, and the call may have asked them again since.
        if call.stage == .limits, call.limitsKey == nil { call.limitsKey = key }
    }

    /// Applies the decision of the limits to a call. Returns `false` if the amounts taken must be refunded.
    func limitsDecided(
        _ call: GateCall, of service: GuardedService, _ decision: CallDecision, charges: () -> [CounterCharge]
    ) -> Bool {
        guard !call.isOver else { return !decision.isAllowed }
        call.limitsKey = nil
        let now = runtime.time.now()
        switch decision.outcome {
        case .taken:
            return execute(service.gate.limitsGranted(call, now: now), of: service, now: now, charges: charges)
        case .refused(let retryAfterMilliseconds):
            let steps = service.gate.limitsRefused(call, retryAfterMilliseconds: retryAfterMilliseconds, now: now)
            execute(steps, of: service, now: now)
        case .neverSatisfiable:
            service.metrics.countRefusal(.limited)
            fail(call, of: service, .neverGranted(cost: call.cost, by: decision, of: service))
        }
        return true
    }

    // MARK: Answers

    private func grant(_ call: GateCall, of service: GuardedService, now: Instant) -> Bool {
        guard let caller = service.permitCallers[call.callerKey] else { return false }
        let id = call.trialPermit ?? PermitID(runtime.entropy.drawPair())
        let state = service.gate.issue(id, to: call, now: now)
        end(call)
        let isDelivered = caller.completion(.granted(id, state: state))
        callEnded(call, of: service, wasGranted: isDelivered)
        if isDelivered {
            service.metrics.permitsGranted.increment()
        } else {
            execute(service.gate.withdraw(id, from: call, now: now), of: service, now: now)
        }
        // The caller is removed last, because a withdrawn call refunds its charges.
        _ = service.permitCallers.remove(call.callerKey)
        return isDelivered
    }

    private func refuse(
        _ call: GateCall, of service: GuardedService, _ reason: PermitResult.Reason, retryAfterMilliseconds: Int64,
        now: Instant
    ) {
        service.metrics.countRefusal(reason)
        let state = service.gate.breaker.actingState(now: now)
        answer(call, of: service, .refused(reason, state: state, retryAfterMilliseconds: retryAfterMilliseconds))
    }

    func fail(_ call: GateCall, of service: GuardedService, _ error: InterlockError) {
        guard !call.isOver else { return }
        let now = runtime.time.now()
        execute(service.gate.abandon(call, now: now), of: service, now: now)
        answer(call, of: service, .failed(error))
    }

    private func answer(_ call: GateCall, of service: GuardedService, _ result: PermitResult) {
        end(call)
        service.permitCallers.remove(call.callerKey)?.completion(result)
        callEnded(call, of: service, wasGranted: false)
    }

    private func end(_ call: GateCall) {
        call.end()
        if call.deadline != nil { waitingCalls[call.number] = nil }
    }

    private func callEnded(_ call: GateCall, of service: GuardedService, wasGranted: Bool) {
        guard call.deadline != nil else { return }
        let now = runtime.time.now()
        execute(service.gate.callEnded(call, wasGranted: wasGranted, now: now), of: service, now: now)
    }

    /// Counts a refusal because too many permits are unreported. Logs it at most once per interval.
    private func logUnreported(_ service: GuardedService, now: Instant) {
        service.metrics.refusedForUnreported.increment()
        guard service.nextWarningAt <= now else { return }
        service.nextWarningAt = now.advanced(byMilliseconds: Self.warningIntervalMilliseconds)
        runtime.logger.log(
            .permitsUnreported, ["service": service.name, "permits": "\(service.gate.permits.count)"])
    }

    // MARK: Changes

    private func slotTimerFired(of service: GuardedService) {
        let now = runtime.time.now()
        execute(service.gate.slotTimerFired(now: now), of: service, now: now)
    }

    /// Resumes or refuses paused calls after the breaker changed or when the pause may have ended.
    func resume(_ service: GuardedService) {
        let now = runtime.time.now()
        execute(service.gate.reevaluatePause(now: now), of: service, now: now)
    }

    /// Frees the slots of permits that lapsed without a report, even if no new call arrives.
    func removeLapsedPermits(of services: [GuardedService]) {
        for service in services { slotTimerFired(of: service) }
    }

    /// Re-evaluates all waiting calls after the configuration has changed.
    func reconsider(_ service: GuardedService) {
        reconsiderLimits(of: service)
        let now = runtime.time.now()
        execute(service.gate.reconsider(now: now), of: service, now: now)
    }

    /// Fails all waiting calls, and prevents later calls from waiting.
    func shutDown(_ services: [GuardedService]) {
        for service in services { service.gate.isShuttingDown = true }
        for service in services {
            for call in service.gate.removeWaiting() { fail(call, of: service, .shuttingDown) }
        }
        for service in services { failWaiting(service, .shuttingDown) }
    }

    /// Stops all work for a service that was removed from the configuration.
    func remove(_ service: GuardedService) {
        failWaiting(service, .unconfigured(service.name))
        service.halfOpenTimer?.cancel()
        service.forcedEnd?.cancel()
        for call in service.gate.close() { fail(call, of: service, .unconfigured(service.name)) }
        service.slotTimer.cancel()
        service.pauseTimer.cancel()
        service.metrics.destroy()
    }
}

extension InterlockError {
    static let shuttingDown = InterlockError(.unavailable, "this sidecar is shutting down")

    static func unconfigured(_ service: String) -> InterlockError {
        InterlockError(.unknownService, "the service \"\(service)\" is no longer configured")
    }
}

extension Completion<Result<BreakerSnapshot.State, InterlockError>> {
    fileprivate func refuse(unknownPermitOf service: GuardedService) {
        self(
            .failure(
                InterlockError(
                    .invalid,
                    "no such permit of \(service.name): it is unknown, was reported before, or is older than permit_ttl")))
    }
}
