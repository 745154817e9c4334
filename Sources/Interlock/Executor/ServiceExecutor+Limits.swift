internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Sends the batches of each service's limiter to Redis, and delivers the decisions.
extension ServiceExecutor {
    /// Asks the limits of `service` to grant calls. Returns an ID with which to cancel the wait.
    func take(
        _ service: GuardedService, count: Int = 1, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        caller: GuardedService.Caller
    ) -> Int {
        let id = service.callers.insert(caller)
        let subject = service.countedSubject(subject, now: now)
        let request = LimitRequest(
            id: id, count: count, cost: cost, subject: subject,
            deadline: waitMilliseconds > 0 ? now.advanced(byMilliseconds: waitMilliseconds) : nil)
        switch service.gate.limiter.admit(request, now: now) {
        case .queued:
            updateBacklog(of: service)
            scheduleFlush(of: service)
        case .waiting(let decision):
            reportLimited(service, by: decision, cost: cost)
            scheduleWakeUp(of: service, now: now)
        case .decided(let decision):
            service.metrics.remembered.increment(by: count)
            reportLimited(service, by: decision, cost: cost)
            deliverRefusal(service, .init(id: id, decision: decision, requestIndex: nil, calls: 0..<count), cost: cost)
        case .unlimited:
            completeUnlimited(service, id: id, count: count, subject: subject)
        }
        return id
    }

    /// Cancels a wait. If the call's batch is in progress, a grant is refunded when it arrives.
    func cancelTake(_ id: Int, of service: GuardedService) {
        guard service.gate.limiter.remove(id) else { return }
        _ = service.callers.remove(id)
        scheduleNextFlush(of: service)
    }

    /// Fails the calls that wait for the limits. From now on, calls that would have to wait fail with `error`.
    func failWaiting(_ service: GuardedService, _ error: InterlockError) {
        service.waitFailure = error
        service.wakeUp?.cancel()
        service.wakeUp = nil
        for id in service.gate.limiter.removeWaiting() { failCall(service, id: id, error) }
        // Calls that do not wait may have queued behind them.
        if service.gate.limiter.hasArrivals { scheduleFlush(of: service) }
    }

    /// Drops the remembered refusals when Redis is connected again, because it may have lost their counters.
    func redisReconnected(_ service: GuardedService) {
        service.gate.limiter.forgetRefusals()
        reconsiderLimits(of: service)
    }

    /// Reports a refusal to the breaker if a limit of the whole service caused it.
    private func reportLimited(_ service: GuardedService, by decision: CallDecision, cost: Int64) {
        guard let retryAfterMilliseconds = decision.retryAfterMilliseconds,
            service.gate.definition.limits.contains(where: { $0.name == decision.limitName && !$0.isPerSubject })
        else { return }
        tripOnLimit(service, retryAfterMilliseconds: Self.pauseMilliseconds(forCost: cost, retryAfterMilliseconds))
    }

    /// Returns the time for which the limit is known to be full. For a call that costs more than 1, that is 1 ms, the
    /// shortest pause, because cheaper calls may still fit.
    private static func pauseMilliseconds(forCost cost: Int64, _ retryAfterMilliseconds: Int64) -> Int64 {
        cost == 1 ? retryAfterMilliseconds : 1
    }

    /// Re-evaluates all waiting calls, because the limits have changed or Redis is connected again.
    func reconsiderLimits(of service: GuardedService) {
        scheduleFlush(of: service)
        scheduleWakeUp(of: service, now: runtime.time.now())
    }

    // MARK: Batches

    private func updateBacklog(of service: GuardedService) {
        guard service.isBackedUp != service.gate.limiter.isBackedUp else { return }
        service.isBackedUp.toggle()
        backedUpServices += service.isBackedUp ? 1 : -1
    }

    /// Schedules a flush at the end of the tick, so that all calls of one tick share a batch.
    private func scheduleFlush(of service: GuardedService) {
        guard !service.isFlushScheduled, service.gate.limiter.mayFlush else { return }
        service.isFlushScheduled = true
        servicesToFlush.append(service)
        guard servicesToFlush.count == 1 else { return }
        runtime.eventLoop.assumeIsolated().execute { [self] in
            let services = servicesToFlush
            servicesToFlush.removeAll(keepingCapacity: true)
            for service in services {
                service.isFlushScheduled = false
                flush(service)
            }
        }
    }

    private func flush(_ service: GuardedService) {
        let sentAt = runtime.time.now()
        answerUnlimited(service)
        // Send the refunds first, so that the calls of this batch can use them.
        sendPendingRefunds(of: service)
        let nextBatch = service.gate.limiter.nextBatch(now: sentAt, sidecars: runtime.sidecarCount)
        updateBacklog(of: service)
        guard let batch = nextBatch else { return scheduleWakeUp(of: service, now: sentAt) }
        guard runtime.pipeline.isUp else {
            let reason = runtime.pipeline.lastFailure ?? RedisError(.notConnected, "Redis is not connected yet")
            decideLocally(service, batch, reason: reason, now: sentAt)
            return scheduleNextFlush(of: service)
        }
        runtime.pipeline.send(TakeScript(keys: runtime.keys, scope: .service(service.name), batch: batch.limits)) {
            [self] result in
            let now = runtime.time.now()
            runtime.metrics.limitTime.recordNanoseconds(now.nanoseconds - sentAt.nanoseconds)
            switch result {
            case .success(let verdict):
                if let counters = service.localCounters, counters.isExpired(at: now) { service.localCounters = nil }
                apply(service, batch, verdict, sentAt: sentAt, now: now)
            case .failure(let error):
                decideLocally(service, batch, reason: error, now: now)
                answerUnlimited(service)
                // The calls queued behind the batch must be answered within `redis.timeout`, so they cannot wait for
                // another timeout.
                if error.isUnavailability,
                    let queuedBatch = service.gate.limiter.nextBatch(now: now, sidecars: runtime.sidecarCount)
                {
                    decideLocally(service, queuedBatch, reason: error, now: now)
                }
            }
            // Calls that are read later in this tick join the next batch.
            scheduleFlush(of: service)
        }
    }

    /// Answers queued calls whose limits a reload has removed.
    private func answerUnlimited(_ service: GuardedService) {
        for request in service.gate.limiter.removeUnlimited() {
            completeUnlimited(service, id: request.id, count: request.count, subject: request.subject)
        }
    }

    private func apply(
        _ service: GuardedService, _ batch: ServiceBatch, _ verdict: BatchVerdict, sentAt: Instant, now: Instant
    ) {
        limitsRequestedAt = sentAt
        defer { limitsRequestedAt = nil }
        // Taken out of the property, in case a delivery applies another batch.
        var buffer = resolutions
        resolutions = []
        service.gate.limiter.apply(
            verdict, of: batch, sentAt: sentAt, now: now, sidecars: runtime.sidecarCount, into: &buffer)
        for notice in service.gate.limiter.removeNotices() { publisher.publish(LimitEvent(notice, of: service)) }
        if service.gate.isConfigured { service.metrics.countShadowRefusals(verdict, batch.limits) }
        reportUsage(service, batch, verdict)
        var takenCount = 0
        var limitedCount = 0
        for resolution in buffer {
            let deliveredCount = deliver(
                service, resolution, cost: resolution.requestIndex.map { batch.requests[$0].cost } ?? 1
            ) {
                guard let requestIndex = resolution.requestIndex else { return [] }
                return batch.charges(
                    ofRequestAt: requestIndex, calls: 1, by: verdict, service: service.name, keys: runtime.keys)
            }
            guard resolution.decision.isAllowed, let requestIndex = resolution.requestIndex else {
                limitedCount += resolution.calls.count
                service.metrics.countRefusal(resolution.calls.count, by: resolution.decision.limitName)
                if resolution.requestIndex == nil { service.metrics.remembered.increment(by: resolution.calls.count) }
                continue
            }
            takenCount += resolution.calls.count
            guard deliveredCount < resolution.calls.count else { continue }
            refund(
                service,
                batch.charges(
                    ofRequestAt: requestIndex, calls: resolution.calls.count - deliveredCount, by: verdict,
                    service: service.name, keys: runtime.keys))
        }
        service.metrics.taken.increment(by: takenCount)
        service.metrics.limited.increment(by: limitedCount)
        buffer.removeAll(keepingCapacity: true)
        resolutions = buffer
        // Calls that were in progress when `failWaiting` ran must not start to wait.
        if let waitFailure = service.waitFailure { failWaiting(service, waitFailure) }
        scheduleWakeUp(of: service, now: now)
    }

    /// Reports to the breaker whether the limits of the whole service had room for the batch.
    private func reportUsage(_ service: GuardedService, _ batch: ServiceBatch, _ verdict: BatchVerdict) {
        var isEveryCallGranted = true
        var limitedMilliseconds: Int64?
        var grantedCost: Int64 = 0
        for run in batch.limits.runs where !verdict.fits.isEmpty {
            guard let cost = batch.limits.charges[run.charges].first?.cost else { continue }
            let decision = verdict.decision(on: run, of: batch.limits)
            grantedCost += Int64(decision.grantedCount) * cost
            guard decision.grantedCount < run.count else { continue }
            isEveryCallGranted = false
            guard !batch.limits.definition(of: decision.bindingIndex).isPerSubject else { continue }
            let pauseMilliseconds = Self.pauseMilliseconds(
                forCost: cost, (decision.retryAfterMicroseconds + 999) / 1000)
            limitedMilliseconds = min(limitedMilliseconds ?? pauseMilliseconds, pauseMilliseconds)
        }
        if let limitedMilliseconds {
            tripOnLimit(service, retryAfterMilliseconds: limitedMilliseconds)
        } else if isEveryCallGranted || (grantedCost > 0 && batch.hasCapacity(after: grantedCost, by: verdict)) {
            closeAfterLimit(service)
        }
    }

    private func deliverRefusal(_ service: GuardedService, _ resolution: ServiceLimiter.CallResolution, cost: Int64) {
        service.metrics.limited.increment(by: resolution.calls.count)
        service.metrics.countRefusal(resolution.calls.count, by: resolution.decision.limitName)
        _ = deliver(service, resolution, cost: cost)
    }

    /// Delivers a decision to the callers.
    /// - Parameter cost: the cost of each call.
    /// - Returns: the number of calls that accepted the decision. The caller refunds the other granted calls.
    private func deliver(
        _ service: GuardedService, _ resolution: ServiceLimiter.CallResolution, cost: @autoclosure () -> Int64,
        charges: () -> [CounterCharge] = { [] }
    ) -> Int {
        let caller = resolution.isLast ? service.callers.remove(resolution.id) : service.callers[resolution.id]
        switch caller {
        case nil:
            return 0
        case .take(let completion) where resolution.decision.outcome == .neverSatisfiable:
            let error = InterlockError.neverGranted(cost: cost(), by: resolution.decision, of: service)
            for offset in resolution.calls { _ = completion(.failed(error), offset: offset) }
            return 0
        case .take(let completion):
            let count = resolution.calls.count
            let take =
                count == 1
                ? TakeResult.decided(resolution.decision)
                : .decidedBatch(resolution.decision, count: count, step: resolution.step)
            return completion(take, offset: resolution.calls.lowerBound) ? count : 0
        case .permit(let permit):
            return limitsDecided(permit, of: service, resolution.decision, charges: charges) ? 1 : 0
        }
    }

    /// Fails `count` calls that were made as one.
    private func failCall(_ service: GuardedService, id: Int, count: Int = 1, _ error: InterlockError) {
        guard let caller = service.callers.remove(id) else { return }
        service.metrics.failed.increment(by: count)
        switch caller {
        case .take(let completion): for call in 0..<count { completion(.failed(error), offset: call) }
        case .permit(let permit): fail(permit, of: service, error)
        }
    }

    /// Answers calls to which no limit applies: grants a permit's call, and fails a call that only takes from limits.
    private func completeUnlimited(_ service: GuardedService, id: Int, count: Int = 1, subject: String?) {
        let completion: Completion<TakeResult>
        switch service.callers.remove(id) {
        case nil: return
        case .take(let takeCompletion): completion = takeCompletion
        case .permit(let permit):
            _ = limitsDecided(permit, of: service, .unlimited) { [] }
            return
        }
        for call in 0..<count { completion(.failed(.noLimit(of: service)), offset: call) }
    }

    /// Schedules a flush for calls that have arrived, or else the next wake-up of waiting calls.
    private func scheduleNextFlush(of service: GuardedService) {
        if service.gate.limiter.hasArrivals {
            scheduleFlush(of: service)
        } else {
            scheduleWakeUp(of: service, now: runtime.time.now())
        }
    }

    // MARK: Without Redis

    private func decideLocally(_ service: GuardedService, _ batch: ServiceBatch, reason: RedisError, now: Instant) {
        guard reason.isUnavailability, service.gate.definition.whenRedisIsDown != .deny else {
            service.gate.limiter.abandon(batch)
            for request in batch.requests {
                failCall(service, id: request.id, count: request.count, InterlockError(reason))
            }
            return
        }
        switch service.gate.definition.whenRedisIsDown {
        case .allow, .deny:
            apply(service, batch, .allGranted(batch.limits), sentAt: now, now: now)
        case .local:
            var counters = service.localCounters ?? LocalCounters()
            let verdict = counters.evaluate(batch.limits, sidecars: runtime.sidecarCount, now: now)
            service.localCounters = counters
            apply(service, batch, verdict, sentAt: now, now: now)
        }
    }

    // MARK: Waiting

    private func scheduleWakeUp(of service: GuardedService, now: Instant) {
        service.wakeUp?.cancel()
        service.wakeUp = nil
        guard let wakeUpAt = service.gate.limiter.nextWakeUp(now: now) else { return }
        service.wakeUp = runtime.deadlines.schedule(at: wakeUpAt) { [unowned self, weak service] in
            guard let service else { return }
            let now = runtime.time.now()
            var expired: [ServiceLimiter.CallResolution] = []
            service.gate.limiter.expire(now: now, into: &expired)
            // Any cost will do: it matters only for calls that can never be granted, and such calls do not wait.
            for resolution in expired { deliverRefusal(service, resolution, cost: 1) }
            // The flush schedules the next wake-up. So does the verdict on a batch in progress.
            scheduleFlush(of: service)
        }
    }

    // MARK: Refunds

    /// The maximum number of refunds in one script, which blocks Redis while it runs.
    private static let maximumRefundsPerScript = 128

    /// Refunds unused grants whose window has not ended. The refunds of one tick are sent together, because a
    /// disconnected client can leave a thousand calls behind.
    func refund(_ service: GuardedService, _ charges: [CounterCharge]) {
        guard !charges.isEmpty else { return }
        let isScheduled = !service.pendingRefunds.isEmpty
        for charge in charges { service.pendingRefunds.add(charge) }
        guard !isScheduled else { return }
        runtime.eventLoop.assumeIsolated().execute { [self] in sendPendingRefunds(of: service) }
    }

    private func sendPendingRefunds(of service: GuardedService) {
        var pendingRefunds = service.pendingRefunds[...]
        service.pendingRefunds = []
        while !pendingRefunds.isEmpty {
            sendRefunds(Array(pendingRefunds.prefix(Self.maximumRefundsPerScript)), to: service)
            pendingRefunds = pendingRefunds.dropFirst(Self.maximumRefundsPerScript)
        }
    }

    private func sendRefunds(_ charges: [CounterCharge], to service: GuardedService) {
        runtime.pipeline.send(RefundScript(charges: charges)) { [self] result in
            guard case .success = result else { return }
            for charge in charges {
                service.gate.limiter.recordRefund(definitionIndex: charge.definitionIndex, subject: charge.subject)
            }
            scheduleFlush(of: service)
        }
    }

    // MARK: Rates that callers specify

    /// Runs `CL.THROTTLE`. Fails while Redis is down, because the sidecar keeps no state of such rates.
    func throttle(_ request: ThrottleRequest, completion: Completion<Result<ThrottleResult, InterlockError>>) {
        let script = ThrottleScript(key: runtime.keys.throttle(request.key.text), request: request)
        runtime.pipeline.send(script) { completion($0.mapError(InterlockError.init)) }
    }

    // MARK: Reading

    /// Calls `completion` with the decision that a call of cost 1 would get. Takes nothing.
    func peek(_ service: GuardedService, subject: String?, completion: Completion<TakeResult>) {
        list(service, subject: subject) { result in
            switch result {
            case .failure(let error):
                completion(.failed(error))
            case .success(let states):
                if let binding = LimitState.binding(of: states) {
                    completion(.decided(binding.callDecision))
                } else {
                    completion(.failed(.noLimit(of: service)))
                }
            }
        }
    }

    /// Reads the state of each limit that applies to a call, in the order of the definition.
    func list(
        _ service: GuardedService, subject: String?,
        completion: @escaping (Result<[LimitState], InterlockError>) -> Void
    ) {
        let definitions = service.gate.definition.limits
        let applicableIndices = definitions.indices.filter { !definitions[$0].isPerSubject || subject != nil }
        guard !applicableIndices.isEmpty else { return completion(.success([])) }
        let subject = subject.map(SubjectRegistry.counterName(for:)).map {
            service.subjects.hasCapacity(for: $0) ? $0 : SubjectRegistry.overflow
        }
        let script = PeekScript(
            keyNames: applicableIndices.map { index in
                runtime.keys.rate(
                    service: service.name, of: definitions[index], subject: definitions[index].isPerSubject ? subject : nil)
            },
            limits: applicableIndices.map { definitions[$0] })
        runtime.pipeline.send(script) { result in
            completion(
                result.map { counters in
                    zip(applicableIndices, counters).map { index, counter in
                        LimitState(
                            definition: definitions[index],
                            callDecision: CallDecision(peeking: definitions[index], counter))
                    }
                }.mapError(InterlockError.init))
        }
    }
}

extension CallDecision {
    /// Creates the decision that a call of cost 1 would get from one limit.
    fileprivate init(peeking definition: LimitDefinition, _ counter: PeekScript.Counter) {
        let remaining = max(0, definition.capacity - counter.taken)
        let isGranted = remaining >= 1 || definition.isShadow
        let retryAfterMilliseconds = max(1, (counter.retryAfterMicroseconds + 999) / 1000)
        self.init(
            isGranted ? .taken : .refused(retryAfterMilliseconds: retryAfterMilliseconds), limit: definition.limit,
            remaining: remaining,
            resetAfterMilliseconds: isGranted
                ? counter.resetAfterMilliseconds : max(retryAfterMilliseconds, counter.resetAfterMilliseconds),
            limitName: definition.name)
    }
}

extension LimitEvent {
    init(_ notice: LimitNotices.Notice, of service: GuardedService) {
        let kind: Kind =
            switch notice.kind {
            case .near: .near
            case .reached: .reached
            case .shadow: .shadow
            }
        self.init(
            kind: kind, service: service.name, limitName: service.gate.definition.limits[notice.definitionIndex].name,
            subject: notice.subject, used: notice.used, limit: notice.capacity)
    }
}

extension InterlockError {
    /// Returns the error for a call to which no limit of the service applies.
    static func noLimit(of service: GuardedService) -> InterlockError {
        InterlockError(
            .invalid,
            service.gate.definition.limits.isEmpty
                ? "the service \"\(service.name)\" has no limits"
                : "the limits of the service \"\(service.name)\" count per subject; name a subject")
    }

    /// Returns the error for a call that costs more than a limit can ever grant at once.
    static func neverGranted(cost: Int64, by decision: CallDecision, of service: GuardedService) -> InterlockError {
        var reason = "the limit is \(decision.limit)"
        if let definition = service.gate.definition.limits.first(where: { $0.name == decision.limitName }) {
            let limit = "the limit \(definition.name) of the service \"\(service.name)\""
            reason =
                definition.capacity == definition.limit
                ? "\(limit) is \(definition.limit)" : "\(limit) grants at most \(definition.capacity) at once"
        }
        return InterlockError(.invalid, "a call of cost \(cost) can never be granted: \(reason)")
    }
}
