internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import NIOCore

/// Limits: sends what the limiters batch, and hands out what they decide. Confined to the coordinator's event loop.
final class RateLimitCoordinator {
    private let runtime: CoordinatorRuntime
    /// Among how many sidecars a limit is divided while Redis is away.
    var sidecars: () -> Int = { 1 }
    /// A call met a limit of this service.
    var onLimited: (GuardedService) -> Void = { _ in }
    /// All calls of a batch were granted by this service's limits.
    var onTaken: (GuardedService) -> Void = { _ in }
    /// The limits have decided about a call that wants a permit. Says whether what was taken has found its caller.
    var onPermitDecided: (GuardedService, GuardedService.PermitWish, LimitAnswer) -> Bool = { _, _, _ in false }
    /// The limits could not be asked about a call that wants a permit.
    var onPermitFailed: (GuardedService, GuardedService.PermitWish, InterlockError) -> Void = { _, _, _ in }

    private var planned: [GuardedService] = []
    private var settlements: [ServiceLimiter.Settlement] = []

    init(runtime: CoordinatorRuntime) {
        self.runtime = runtime
    }

    /// Asks the limits of `service`. Returns an ID by which a wait can be given up.
    func ask(
        _ service: GuardedService, count: Int = 1, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        caller: GuardedService.Caller
    ) -> Int {
        let id = service.callers.insert(caller)
        let request = LimitRequest(
            id: id, count: count, cost: cost, subject: subject,
            deadline: waitMilliseconds > 0 ? now.advanced(byMilliseconds: waitMilliseconds) : nil)
        switch service.limiter.admit(request, now: now) {
        case .queued:
            planFlush(of: service)
        case .waiting:
            onLimited(service)
            planWakeUp(of: service, now: now)
        case .answered(let answer):
            service.metrics.remembered.increment(by: count)
            if answer.retryAfter != LimitAnswer.neverSatisfiable { onLimited(service) }
            refused(service, .init(id: id, answer: answer, place: nil, calls: 0..<count))
        case .unlimited:
            unlimited(service, id: id, count: count, subject: subject)
        }
        return id
    }

    /// Gives up a wait. What is already on its way is given back when it arrives and finds nobody.
    func cancel(_ id: Int, of service: GuardedService) {
        guard service.limiter.remove(id) else { return }
        _ = service.callers.remove(id)
        planWakeUp(of: service, now: runtime.time.now())
    }

    /// Nobody is left waiting.
    func failWaiting(_ service: GuardedService, _ error: InterlockError) {
        service.wakeUp?.cancel()
        service.wakeUp = nil
        for id in service.limiter.removeWaiting() { failed(service, id: id, error) }
    }

    /// Everyone who waits asks again: the limits changed, or Redis is back.
    func reconsider(_ service: GuardedService) {
        planFlush(of: service)
        planWakeUp(of: service, now: runtime.time.now())
    }

    // MARK: Batches

    /// All calls of one tick travel together.
    private func planFlush(of service: GuardedService) {
        guard !service.isFlushPlanned, !service.limiter.hasBatchInFlight else { return }
        service.isFlushPlanned = true
        planned.append(service)
        guard planned.count == 1 else { return }
        runtime.eventLoop.assumeIsolated().execute { [self] in
            let services = planned
            planned.removeAll(keepingCapacity: true)
            for service in services {
                service.isFlushPlanned = false
                flush(service)
            }
        }
    }

    private func flush(_ service: GuardedService) {
        let sentAt = runtime.time.now()
        guard let batch = service.limiter.nextBatch(now: sentAt) else {
            return planWakeUp(of: service, now: sentAt)
        }
        guard runtime.pipeline.isUp else {
            let reason = runtime.pipeline.lastFailure ?? RedisError(.notConnected, "Redis is not connected yet")
            return decideAlone(service, batch, reason: reason, now: sentAt)
        }
        runtime.pipeline.run(TakeScript(keys: runtime.keys, service: service.name, batch: batch)) { [self] result in
            let now = runtime.time.now()
            runtime.metrics.limitTime.recordNanoseconds(now.nanoseconds - sentAt.nanoseconds)
            switch result {
            case .success(let verdict):
                service.localCounters = nil
                settle(service, batch, verdict, limits: nil, sentAt: sentAt, now: now)
            case .failure(let error):
                decideAlone(service, batch, reason: error, now: now)
            }
            // At the end of the tick: whoever is read in it travels along.
            planFlush(of: service)
        }
    }

    private func settle(
        _ service: GuardedService, _ batch: LimitBatch, _ verdict: LimitVerdict, limits: [Int64]?, sentAt: Instant,
        now: Instant
    ) {
        var settled = settlements
        settlements = []
        service.limiter.settle(verdict, limits: limits, sentAt: sentAt, now: now, into: &settled)
        var isLimited = false
        for (run, decided) in zip(batch.runs, verdict.runs) where decided.granted < run.count { isLimited = true }
        if isLimited { onLimited(service) } else { onTaken(service) }
        var taken = 0
        var limited = 0
        for settlement in settled {
            let delivered = deliver(service, settlement)
            guard settlement.answer.isTaken, let place = settlement.place else {
                limited += settlement.calls.count
                continue
            }
            taken += settlement.calls.count
            guard delivered < settlement.calls.count else { continue }
            giveBack(
                service,
                shares(of: place, calls: settlement.calls.count - delivered, in: batch, verdict, service: service))
        }
        service.metrics.taken.increment(by: taken)
        service.metrics.limited.increment(by: limited)
        settled.removeAll(keepingCapacity: true)
        settlements = settled
        planWakeUp(of: service, now: now)
    }

    private func refused(_ service: GuardedService, _ settlement: ServiceLimiter.Settlement) {
        service.metrics.limited.increment(by: settlement.calls.count)
        _ = deliver(service, settlement)
    }

    /// How many of the calls were still there to be answered.
    private func deliver(_ service: GuardedService, _ settlement: ServiceLimiter.Settlement) -> Int {
        let known = settlement.isLast ? service.callers.remove(settlement.id) : service.callers[settlement.id]
        switch known {
        case nil:
            return 0
        case .take(let completion):
            var delivered = 0
            for call in settlement.calls where completion(.decided(settlement.answer(toCall: call)), offset: call) {
                delivered += 1
            }
            return delivered
        case .permit(let wish):
            return onPermitDecided(service, wish, settlement.answer) ? 1 : 0
        }
    }

    private func failed(_ service: GuardedService, id: Int, count: Int = 1, _ error: InterlockError) {
        guard let caller = service.callers.remove(id) else { return }
        service.metrics.failed.increment(by: count)
        switch caller {
        case .take(let completion): for call in 0..<count { completion(.failed(error), offset: call) }
        case .permit(let wish): onPermitFailed(service, wish, error)
        }
    }

    private func unlimited(_ service: GuardedService, id: Int, count: Int = 1, subject: String?) {
        guard case .take(let completion) = service.callers.remove(id) else { return }
        let message =
            service.definition.limits.isEmpty
            ? "the service \(service.name) has no limits"
            : "the limits of the service \(service.name) count per subject: say SUBJECT"
        for call in 0..<count { completion(.failed(InterlockError(.invalid, message)), offset: call) }
    }

    // MARK: Redis is away

    private func decideAlone(_ service: GuardedService, _ batch: LimitBatch, reason: RedisError, now: Instant) {
        guard reason.isUnavailability, service.definition.whenRedisIsDown != .deny else {
            for request in service.limiter.abandonBatch() {
                failed(service, id: request.id, count: request.count, InterlockError(reason))
            }
            return
        }
        switch service.definition.whenRedisIsDown {
        case .allow, .deny:
            let verdict = LimitVerdict(
                timeMilliseconds: 0,
                counters: batch.counters.map { LimitVerdict.Counter(count: 0, ttl: $0.windowMilliseconds) },
                runs: batch.runs.map { LimitVerdict.Run(granted: $0.count, binding: 0) })
            settle(service, batch, verdict, limits: nil, sentAt: now, now: now)
        case .local:
            var counters = service.localCounters ?? LocalCounters(sidecars: sidecars())
            let (verdict, limits) = counters.judge(batch, now: now)
            service.localCounters = counters
            settle(service, batch, verdict, limits: limits, sentAt: now, now: now)
        }
    }

    // MARK: Waiting

    private func planWakeUp(of service: GuardedService, now: Instant) {
        service.wakeUp?.cancel()
        service.wakeUp = nil
        guard let next = service.limiter.nextWakeUp(now: now) else { return }
        service.wakeUp = runtime.deadlines.schedule(at: next) { [unowned self, unowned service] in
            let now = runtime.time.now()
            var expired: [ServiceLimiter.Settlement] = []
            service.limiter.expire(now: now, into: &expired)
            for settlement in expired { refused(service, settlement) }
            // The flush plans the next wake-up; so does the verdict on a batch that is under way.
            planFlush(of: service)
        }
    }

    // MARK: Giving back

    private func shares(
        of place: Int, calls: Int, in batch: LimitBatch, _ verdict: LimitVerdict, service: GuardedService
    ) -> [TakenShare] {
        guard verdict.timeMilliseconds > 0 else { return [] }
        let counters = batch.counters
        return batch.counterIndices(ofRequestAt: place).map { index in
            let counter = counters[index]
            return TakenShare(
                key: runtime.keys.rate(
                    service: service.name, limit: batch.definitions[counter.definition].name, subject: counter.subject),
                definition: counter.definition, subject: counter.subject, cost: batch.requests[place].cost * Int64(calls),
                windowEnd: verdict.timeMilliseconds + verdict.counters[index].ttl,
                windowMilliseconds: counter.windowMilliseconds)
        }
    }

    private func giveBack(_ service: GuardedService, _ shares: [TakenShare]) {
        guard !shares.isEmpty else { return }
        runtime.pipeline.run(GiveBackScript(shares: shares)) { [self] result in
            guard case .success = result else { return }
            for share in shares { service.limiter.gaveBack(definition: share.definition, subject: share.subject) }
            planFlush(of: service)
        }
    }

    // MARK: Looking

    /// What a call of cost 1 would be told, taking nothing.
    func peek(_ service: GuardedService, subject: String?, completion: Completion<TakeAnswer>) {
        let definitions = service.definition.limits
        let applicable = definitions.indices.filter { !definitions[$0].isPerSubject || subject != nil }
        guard !applicable.isEmpty else {
            let id = service.callers.insert(.take(completion))
            return unlimited(service, id: id, subject: subject)
        }
        let script = PeekScript(
            keyNames: applicable.map { index in
                runtime.keys.rate(
                    service: service.name, limit: definitions[index].name,
                    subject: definitions[index].isPerSubject ? subject : nil)
            })
        runtime.pipeline.run(script) { result in
            switch result {
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            case .success(let counters):
                let answers = zip(applicable, counters).map { index, counter in
                    LimitAnswer(peeking: definitions[index], index: index, counter)
                }
                // The one that binds: what refuses for longest, else what has least left.
                let binding = answers.max { left, right in
                    (left.retryAfter ?? 0, -left.remaining) < (right.retryAfter ?? 0, -right.remaining)
                }
                if let binding { completion(.decided(binding)) }
            }
        }
    }
}

extension LimitAnswer {
    fileprivate init(peeking definition: LimitDefinition, index: Int, _ counter: LimitVerdict.Counter) {
        let remaining = max(0, definition.limit - counter.count)
        let reset = counter.ttl >= 0 ? counter.ttl + 1 : 0
        self.init(
            retryAfter: remaining >= 1 ? nil : max(1, reset), limit: definition.limit, remaining: remaining,
            resetAfter: reset, limitIndex: index)
    }
}
