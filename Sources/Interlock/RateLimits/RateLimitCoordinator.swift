internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import NIOCore

/// Limits: sends what the limiters batch, and hands out what they decide. Confined to the coordinator's event loop.
final class RateLimitCoordinator {
    private let runtime: CoordinatorRuntime
    /// How many sidecars may be at the same limits: who waits shares with them, and while Redis is away each has its part.
    var sidecars: () -> Int = { 1 }
    /// A call met a limit of the whole service, which has room again after so many milliseconds as far as is known. What one
    /// subject alone may take is no news of the service.
    var onLimited: (_ service: GuardedService, _ retryAfter: Int64) -> Void = { _, _ in }
    /// The limits of the whole service had room for all calls of a batch.
    var onTaken: (GuardedService) -> Void = { _ in }
    /// There is something to tell of a limit.
    var onEvent: (LimitEvent) -> Void = { _ in }
    /// The limits have decided about a call that wants a permit. Says whether what was taken has found its caller, or is kept
    /// for it: then the last argument tells what that is, for `giveBack`.
    var onPermitDecided: (PermitRequest, LimitAnswer, () -> [TakenShare]) -> Bool = { _, _, _ in false }
    /// The limits could not be asked about a call that wants a permit.
    var onPermitFailed: (PermitRequest, InterlockError) -> Void = { _, _ in }

    private var planned: [GuardedService] = []
    /// How many services are backed up: see `ServiceLimiter.isBackedUp`.
    private(set) var backedUp = 0
    private var settlements: [ServiceLimiter.Settlement] = []

    /// When Redis was asked for what is being answered now; `nil`: nothing is, or it is answered without Redis.
    private(set) var askedAt: Instant?

    init(runtime: CoordinatorRuntime) {
        self.runtime = runtime
    }

    /// Asks the limits of `service`. Returns an ID by which a wait can be given up.
    func ask(
        _ service: GuardedService, count: Int = 1, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        caller: GuardedService.Caller
    ) -> Int {
        let id = service.callers.insert(caller)
        let subject = service.counted(subject, now: now)
        let request = LimitRequest(
            id: id, count: count, cost: cost, subject: subject,
            deadline: waitMilliseconds > 0 ? now.advanced(byMilliseconds: waitMilliseconds) : nil)
        switch service.limiter.admit(request, now: now) {
        case .queued:
            noteBacklog(of: service)
            planFlush(of: service)
        case .waiting(let answer):
            tellIfLimited(service, by: answer, cost: cost)
            planWakeUp(of: service, now: now)
        case .answered(let answer):
            service.metrics.remembered.increment(by: count)
            tellIfLimited(service, by: answer, cost: cost)
            deliverRefusal(service, .init(id: id, answer: answer, place: nil, calls: 0..<count), cost: cost)
        case .unlimited:
            unlimited(service, id: id, count: count, subject: subject)
        }
        return id
    }

    /// Gives up a wait. What is already on its way is given back when it arrives and finds nobody.
    func cancel(_ id: Int, of service: GuardedService) {
        guard service.limiter.remove(id) else { return }
        _ = service.callers.remove(id)
        planNextFlush(of: service)
    }

    /// Nobody is left waiting.
    func failWaiting(_ service: GuardedService, _ error: InterlockError) {
        service.waitingEnd = error
        service.wakeUp?.cancel()
        service.wakeUp = nil
        for id in service.limiter.removeWaiting() { failed(service, id: id, error) }
        // Those who came without a wait and stood behind them.
        if service.limiter.hasArrivals { planFlush(of: service) }
    }

    /// Redis is back: what it refused before it may have lost.
    func redisIsBack(_ service: GuardedService) {
        service.limiter.forgetRefusals()
        reconsider(service)
    }

    private func tellIfLimited(_ service: GuardedService, by answer: LimitAnswer, cost: Int64) {
        guard let retryAfter = answer.retryAfter, retryAfter != LimitAnswer.neverSatisfiable,
            service.definition.limits.contains(where: { $0.name == answer.limitName && !$0.isPerSubject })
        else { return }
        onLimited(service, Self.pause(forCost: cost, retryAfter))
    }

    /// For how long nobody has room, as far as is known: what costs more waits longer than others need.
    private static func pause(forCost cost: Int64, _ retryAfter: Int64) -> Int64 { cost == 1 ? retryAfter : 1 }

    /// Everyone who waits asks again: the limits changed, or Redis is back.
    func reconsider(_ service: GuardedService) {
        planFlush(of: service)
        planWakeUp(of: service, now: runtime.time.now())
    }

    // MARK: Batches

    private func noteBacklog(of service: GuardedService) {
        guard service.isBackedUp != service.limiter.isBackedUp else { return }
        service.isBackedUp.toggle()
        backedUp += service.isBackedUp ? 1 : -1
    }

    /// All calls of one tick travel together.
    private func planFlush(of service: GuardedService) {
        guard !service.isFlushPlanned, service.limiter.mayFlush else { return }
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
        answerUnlimited(service)
        // What goes back is there for those who ask now.
        returnUnwanted(of: service)
        let next = service.limiter.nextBatch(now: sentAt, sidecars: sidecars())
        noteBacklog(of: service)
        guard let batch = next else { return planWakeUp(of: service, now: sentAt) }
        guard runtime.pipeline.isUp else {
            let reason = runtime.pipeline.lastFailure ?? RedisError(.notConnected, "Redis is not connected yet")
            decideAlone(service, batch, reason: reason, now: sentAt)
            return planNextFlush(of: service)
        }
        runtime.pipeline.run(TakeScript(keys: runtime.keys, service: service.name, batch: batch)) { [self] result in
            let now = runtime.time.now()
            runtime.metrics.limitTime.recordNanoseconds(now.nanoseconds - sentAt.nanoseconds)
            switch result {
            case .success(let verdict):
                if let counters = service.localCounters, counters.mayBeForgotten(at: now) { service.localCounters = nil }
                settle(service, batch, verdict, sentAt: sentAt, now: now)
            case .failure(let error):
                decideAlone(service, batch, reason: error, now: now)
                answerUnlimited(service)
                // Those who stood behind it are not made to find out the same once more: an answer is due within `redis.timeout`.
                if error.isUnavailability, let next = service.limiter.nextBatch(now: now, sidecars: sidecars()) {
                    decideAlone(service, next, reason: error, now: now)
                }
            }
            // At the end of the tick: whoever is read in it travels along.
            planFlush(of: service)
        }
    }

    /// Calls that came before a reload that took their limits away.
    private func answerUnlimited(_ service: GuardedService) {
        for request in service.limiter.removeUnlimited() {
            unlimited(service, id: request.id, count: request.count, subject: request.subject)
        }
    }

    private func settle(
        _ service: GuardedService, _ batch: LimitBatch, _ verdict: LimitVerdict, sentAt: Instant, now: Instant
    ) {
        askedAt = sentAt
        defer { askedAt = nil }
        var settled = settlements
        settlements = []
        service.limiter.settle(
            verdict, of: batch, sentAt: sentAt, now: now, sidecars: sidecars(), into: &settled)
        for notice in service.limiter.removeNotices() { onEvent(LimitEvent(notice, of: service)) }
        if service.isConfigured { service.metrics.countShadowRefusals(verdict, batch) }
        tellHowFull(service, batch, verdict)
        var taken = 0
        var limited = 0
        for settlement in settled {
            let delivered = deliver(service, settlement, cost: settlement.place.map { batch.requests[$0].cost } ?? 1) {
                guard let place = settlement.place else { return [] }
                return batch.shares(
                    ofRequestAt: place, calls: 1, by: verdict, service: service.name, keys: runtime.keys)
            }
            guard settlement.answer.isTaken, let place = settlement.place else {
                limited += settlement.calls.count
                service.metrics.refused(settlement.calls.count, by: settlement.answer.limitName)
                if settlement.place == nil { service.metrics.remembered.increment(by: settlement.calls.count) }
                continue
            }
            taken += settlement.calls.count
            guard delivered < settlement.calls.count else { continue }
            giveBack(
                service,
                batch.shares(
                    ofRequestAt: place, calls: settlement.calls.count - delivered, by: verdict, service: service.name,
                    keys: runtime.keys))
        }
        service.metrics.taken.increment(by: taken)
        service.metrics.limited.increment(by: limited)
        settled.removeAll(keepingCapacity: true)
        settlements = settled
        // Those who were under way when waiting ended do not begin to wait.
        if let end = service.waitingEnd { failWaiting(service, end) }
        planWakeUp(of: service, now: now)
    }

    /// Whether the limits of the whole service had room for the batch.
    private func tellHowFull(_ service: GuardedService, _ batch: LimitBatch, _ verdict: LimitVerdict) {
        var areAllGranted = true
        var limitedFor: Int64?
        var granted: Int64 = 0
        for (run, decided) in zip(batch.runs, verdict.runs) {
            granted += Int64(decided.granted) * run.cost
            guard decided.granted < run.count else { continue }
            areAllGranted = false
            guard !batch.definitions[batch.counters[decided.binding].definition].isPerSubject else { continue }
            let pause = Self.pause(forCost: run.cost, (decided.retryAfterMicroseconds + 999) / 1000)
            limitedFor = min(limitedFor ?? pause, pause)
        }
        if let limitedFor {
            onLimited(service, limitedFor)
        } else if areAllGranted || (granted > 0 && batch.hasRoom(after: granted, by: verdict)) {
            onTaken(service)
        }
    }

    private func deliverRefusal(_ service: GuardedService, _ settlement: ServiceLimiter.Settlement, cost: Int64) {
        service.metrics.limited.increment(by: settlement.calls.count)
        service.metrics.refused(settlement.calls.count, by: settlement.answer.limitName)
        _ = deliver(service, settlement, cost: cost)
    }

    /// - Parameter cost: of each of the calls.
    /// - Returns: how many of the calls were still there to be answered.
    private func deliver(
        _ service: GuardedService, _ settlement: ServiceLimiter.Settlement, cost: @autoclosure () -> Int64,
        shares: () -> [TakenShare] = { [] }
    ) -> Int {
        let known = settlement.isLast ? service.callers.remove(settlement.id) : service.callers[settlement.id]
        switch known {
        case nil:
            return 0
        case .take(let completion) where settlement.answer.isNeverSatisfiable:
            let error = InterlockError.neverGranted(cost: cost(), by: settlement.answer, of: service)
            for offset in settlement.calls { _ = completion(.failed(error), offset: offset) }
            return 0
        case .take(let completion):
            let count = settlement.calls.count
            let answer =
                count == 1
                ? TakeAnswer.decided(settlement.answer)
                : .decidedAlike(settlement.answer, count: count, step: settlement.step)
            return completion(answer, offset: settlement.calls.lowerBound) ? count : 0
        case .permit(let permit):
            return onPermitDecided(permit, settlement.answer, shares) ? 1 : 0
        }
    }

    private func failed(_ service: GuardedService, id: Int, count: Int = 1, _ error: InterlockError) {
        guard let caller = service.callers.remove(id) else { return }
        service.metrics.failed.increment(by: count)
        switch caller {
        case .take(let completion): for call in 0..<count { completion(.failed(error), offset: call) }
        case .permit(let permit): onPermitFailed(permit, error)
        }
    }

    private func unlimited(_ service: GuardedService, id: Int, count: Int = 1, subject: String?) {
        let completion: Completion<TakeAnswer>
        switch service.callers.remove(id) {
        case nil: return
        case .take(let taker): completion = taker
        case .permit(let permit):
            // A permit is not limited where there is no limit.
            let granted = LimitAnswer(retryAfter: nil, limit: 0, remaining: 0, resetAfter: 0, limitName: nil)
            _ = onPermitDecided(permit, granted) { [] }
            return
        }
        for call in 0..<count { completion(.failed(.noLimit(of: service)), offset: call) }
    }

    /// What is left asks in its turn: those who came meanwhile, and those who wait.
    private func planNextFlush(of service: GuardedService) {
        if service.limiter.hasArrivals {
            planFlush(of: service)
        } else {
            planWakeUp(of: service, now: runtime.time.now())
        }
    }

    // MARK: Redis is away

    private func decideAlone(_ service: GuardedService, _ batch: LimitBatch, reason: RedisError, now: Instant) {
        guard reason.isUnavailability, service.definition.whenRedisIsDown != .deny else {
            service.limiter.abandon(batch)
            for request in batch.requests {
                failed(service, id: request.id, count: request.count, InterlockError(reason))
            }
            return
        }
        switch service.definition.whenRedisIsDown {
        case .allow, .deny:
            settle(service, batch, .allGranted(batch), sentAt: now, now: now)
        case .local:
            var counters = service.localCounters ?? LocalCounters()
            let verdict = counters.judge(batch, sidecars: sidecars(), now: now)
            service.localCounters = counters
            settle(service, batch, verdict, sentAt: now, now: now)
        }
    }

    // MARK: Waiting

    private func planWakeUp(of service: GuardedService, now: Instant) {
        service.wakeUp?.cancel()
        service.wakeUp = nil
        guard let next = service.limiter.nextWakeUp(now: now) else { return }
        service.wakeUp = runtime.deadlines.schedule(at: next) { [unowned self, weak service] in
            guard let service else { return }
            let now = runtime.time.now()
            var expired: [ServiceLimiter.Settlement] = []
            service.limiter.expire(now: now, into: &expired)
            // Each has a time to come back, so what it costs need not be told.
            for settlement in expired { deliverRefusal(service, settlement, cost: 1) }
            // The flush plans the next wake-up; so does the verdict on a batch that is under way.
            planFlush(of: service)
        }
    }

    // MARK: Giving back

    /// The most that one script gives back: Redis serves nobody else meanwhile.
    private static let mostGivenBackAtOnce = 128

    /// Returns what was taken and not used, where its window still stands: at the end of the tick, together. A client that leaves
    /// may leave a thousand calls behind.
    func giveBack(_ service: GuardedService, _ shares: [TakenShare]) {
        guard !shares.isEmpty else { return }
        let isPlanned = !service.unwanted.isEmpty
        for share in shares { service.unwanted.add(share) }
        guard !isPlanned else { return }
        runtime.eventLoop.assumeIsolated().execute { [self] in returnUnwanted(of: service) }
    }

    private func returnUnwanted(of service: GuardedService) {
        var unwanted = service.unwanted[...]
        service.unwanted = []
        while !unwanted.isEmpty {
            returnShares(Array(unwanted.prefix(Self.mostGivenBackAtOnce)), to: service)
            unwanted = unwanted.dropFirst(Self.mostGivenBackAtOnce)
        }
    }

    private func returnShares(_ shares: [TakenShare], to service: GuardedService) {
        runtime.pipeline.run(GiveBackScript(shares: shares)) { [self] result in
            guard case .success = result else { return }
            for share in shares { service.limiter.gaveBack(definition: share.definition, subject: share.subject) }
            planFlush(of: service)
        }
    }

    // MARK: Rates that callers name

    /// `CL.THROTTLE`: unavailable while Redis is away, for nobody here knows its rate.
    func throttle(_ request: ThrottleRequest, completion: Completion<Result<ThrottleAnswer, InterlockError>>) {
        let script = ThrottleScript(key: runtime.keys.throttle(request.key.text), request: request)
        runtime.pipeline.run(script) { completion($0.mapError(InterlockError.init)) }
    }

    // MARK: Looking

    /// What a call of cost 1 would be told, taking nothing.
    func peek(_ service: GuardedService, subject: String?, completion: Completion<TakeAnswer>) {
        list(service, subject: subject) { result in
            switch result {
            case .failure(let error):
                completion(.failed(error))
            case .success(let standings):
                if let binding = LimitStanding.binding(of: standings) {
                    completion(.decided(binding.answer))
                } else {
                    completion(.failed(.noLimit(of: service)))
                }
            }
        }
    }

    /// Where each limit stands that applies to a call, in the order of the definition.
    func list(
        _ service: GuardedService, subject: String?,
        completion: @escaping (Result<[LimitStanding], InterlockError>) -> Void
    ) {
        let definitions = service.definition.limits
        let applicable = definitions.indices.filter { !definitions[$0].isPerSubject || subject != nil }
        guard !applicable.isEmpty else { return completion(.success([])) }
        let subject = subject.map(SubjectBook.counted).map { service.subjects.hasPlace(for: $0) ? $0 : SubjectBook.crowd }
        let script = PeekScript(
            keyNames: applicable.map { index in
                runtime.keys.rate(
                    service: service.name, of: definitions[index], subject: definitions[index].isPerSubject ? subject : nil)
            },
            limits: applicable.map { definitions[$0] })
        runtime.pipeline.run(script) { result in
            completion(
                result.map { counters in
                    zip(applicable, counters).map { index, counter in
                        LimitStanding(
                            definition: definitions[index],
                            answer: LimitAnswer(peeking: definitions[index], counter))
                    }
                }.mapError(InterlockError.init))
        }
    }
}

extension LimitAnswer {
    fileprivate init(peeking definition: LimitDefinition, _ counter: PeekScript.Counter) {
        let remaining = max(0, definition.capacity - counter.taken)
        let isGranted = remaining >= 1 || definition.isShadow
        let retryAfter = max(1, (counter.retryAfterMicroseconds + 999) / 1000)
        self.init(
            retryAfter: isGranted ? nil : retryAfter, limit: definition.limit, remaining: remaining,
            resetAfter: isGranted ? counter.resetAfter : max(retryAfter, counter.resetAfter), limitName: definition.name)
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
            kind: kind, service: service.name, limit: service.definition.limits[notice.definition].name,
            subject: notice.subject, used: notice.used, capacity: notice.capacity)
    }
}

extension InterlockError {
    /// No limit of the service applies to the call.
    static func noLimit(of service: GuardedService) -> InterlockError {
        InterlockError(
            .invalid,
            service.definition.limits.isEmpty
                ? "the service \(service.name) has no limits"
                : "the limits of the service \(service.name) count per subject: say SUBJECT")
    }

    /// The cost is above what a limit can ever grant at once: the call is wrong, and no wait can help.
    static func neverGranted(cost: Int64, by answer: LimitAnswer, of service: GuardedService) -> InterlockError {
        var reason = "the limit is \(answer.limit)"
        if let definition = service.definition.limits.first(where: { $0.name == answer.limitName }) {
            let limit = "the limit \(definition.name) of the service \"\(service.name)\""
            reason =
                definition.capacity == definition.limit
                ? "\(limit) is \(definition.limit)" : "\(limit) grants \(definition.capacity) at once at most"
        }
        return InterlockError(.invalid, "a call of cost \(cost) can never be granted: \(reason)")
    }
}
