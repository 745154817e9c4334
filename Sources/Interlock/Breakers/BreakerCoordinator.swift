internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import Logging

/// Breakers and permits: keeps each service's copy up to date, asks Redis for changes, and counts outcomes. Confined to
/// the coordinator's event loop.
final class BreakerCoordinator {
    private let runtime: CoordinatorRuntime
    private let limits: RateLimitCoordinator
    private var permits = PermitTable()

    init(runtime: CoordinatorRuntime, limits: RateLimitCoordinator) {
        self.runtime = runtime
        self.limits = limits
        limits.onLimited = { [unowned self] in limitReached($0) }
        limits.onTaken = { [unowned self] in limitHasRoom($0) }
        limits.onPermitDecided = { [unowned self] in decided($0, $1, $2) }
        limits.onPermitFailed = { [unowned self] service, wish, error in
            returnTrial(wish.trial, service, generation: wish.generation)
            wish.completion(.failed(error))
        }
    }

    var permitsUnderWay: Int { permits.count }

    func status(of service: GuardedService) -> BreakerStatus {
        BreakerStatus(
            service: service.name, state: service.breaker.actingState(now: runtime.time.now()),
            fleet: service.breaker.snapshot)
    }

    // MARK: Permits

    /// Asks breaker and limits in one step. Returns an ID by which a wait for the limit can be given up.
    func acquirePermit(
        _ service: GuardedService, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<PermitAnswer>
    ) -> Int? {
        switch service.breaker.admission(now: now) {
        case .refuse(let retryAfter):
            refuse(service, completion, .open, retryAfter: retryAfter, now: now)
            return nil
        case .allow:
            let wish = GuardedService.PermitWish(
                completion: completion, trial: nil, generation: service.breaker.snapshot.generation)
            return askLimits(service, wish, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: now)
        case .askForTrial:
            askForTrial(service, completion) { [self] wish in
                _ = askLimits(
                    service, wish, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: runtime.time.now())
            }
            return nil
        }
    }

    private func askLimits(
        _ service: GuardedService, _ wish: GuardedService.PermitWish, cost: Int64, subject: String?,
        waitMilliseconds: Int64, now: Instant
    ) -> Int? {
        let isLimited = service.definition.limits.contains { !$0.isPerSubject || subject != nil }
        guard isLimited else {
            _ = grant(service, wish, now: now)
            return nil
        }
        return limits.ask(
            service, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: now, caller: .permit(wish))
    }

    /// `true`: what was taken from the limits has found its caller.
    private func decided(
        _ service: GuardedService, _ wish: GuardedService.PermitWish, _ answer: LimitAnswer
    ) -> Bool {
        let now = runtime.time.now()
        if let retryAfter = answer.retryAfter {
            returnTrial(wish.trial, service, generation: wish.generation)
            refuse(service, wish.completion, .limited, retryAfter: retryAfter, now: now)
            return true
        }
        var wish = wish
        if wish.trial == nil {
            // The breaker may have opened while the call waited for its turn.
            if case .refuse(let retryAfter) = service.breaker.admission(now: now) {
                refuse(service, wish.completion, .open, retryAfter: retryAfter, now: now)
                return false
            }
            wish.generation = service.breaker.snapshot.generation
        }
        return grant(service, wish, now: now)
    }

    private func grant(_ service: GuardedService, _ wish: GuardedService.PermitWish, now: Instant) -> Bool {
        let id = wish.trial ?? PermitID(runtime.entropy.drawPair())
        let permit = PermitTable.Permit(
            service: service, generation: wish.generation, isTrial: wish.trial != nil,
            expiresAt: now.advanced(byMilliseconds: service.definition.permitLifetime.wholeMilliseconds))
        guard permits.insert(permit, id: id, now: now) else {
            returnTrial(wish.trial, service, generation: wish.generation)
            refuse(service, wish.completion, .busy, retryAfter: Breaker.forcedRetryMilliseconds, now: now)
            return false
        }
        guard wish.completion(.granted(id, state: service.breaker.actingState(now: now))) else {
            _ = permits.remove(id, now: now)
            returnTrial(wish.trial, service, generation: wish.generation)
            return false
        }
        service.metrics.permitsGranted.increment()
        return true
    }

    private func refuse(
        _ service: GuardedService, _ completion: Completion<PermitAnswer>, _ reason: PermitAnswer.Reason,
        retryAfter: Int64, now: Instant
    ) {
        service.metrics.permitsRefused.increment()
        completion(.refused(reason, state: service.breaker.actingState(now: now), retryAfter: retryAfter))
    }

    private func askForTrial(
        _ service: GuardedService, _ completion: Completion<PermitAnswer>,
        then proceed: @escaping (GuardedService.PermitWish) -> Void
    ) {
        let id = PermitID(runtime.entropy.drawPair())
        let lifetime = service.definition.permitLifetime.wholeMilliseconds
        run(.trial(id: id.description, lifetime: lifetime), on: service) { [self] result in
            let now = runtime.time.now()
            switch result {
            case .success(let isGranted):
                let state = service.breaker.snapshot.state
                if isGranted {
                    let generation = service.breaker.snapshot.generation
                    return proceed(.init(completion: completion, trial: state == .halfOpen ? id : nil, generation: generation))
                }
                if state == .halfOpen {
                    service.breaker.trialsAreTaken(now: now, forMilliseconds: Self.trialRetryMilliseconds)
                }
                if case .refuse(let retryAfter) = service.breaker.admission(now: now) {
                    return refuse(service, completion, .open, retryAfter: retryAfter, now: now)
                }
                refuse(service, completion, .open, retryAfter: Self.trialRetryMilliseconds, now: now)
            case .failure(let error):
                guard error.isUnavailability, service.definition.whenRedisIsDown != .deny else {
                    completion(.failed(InterlockError(error)))
                    return
                }
                // Alone, and the open time is over: what may be called is found out by calling.
                proceed(.init(completion: completion, trial: nil, generation: service.breaker.snapshot.generation))
            }
        }
    }

    /// How long a caller is told to wait when all trial permits are under way, and for how long Redis is not asked again.
    private static let trialRetryMilliseconds: Int64 = 100

    private func returnTrial(_ trial: PermitID?, _ service: GuardedService, generation: Int64) {
        guard let trial else { return }
        run(
            .trialOutcome(id: trial.description, .ignore, expect: generation, retryAfter: nil), on: service
        ) { _ in }
    }

    // MARK: Outcomes

    /// Takes the outcome of a call; answers with the breaker's state after it.
    func report(
        _ service: GuardedService, permit id: PermitID, _ report: OutcomeReport,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let now = runtime.time.now()
        guard let permit = permits.remove(id, now: now), permit.service === service else {
            completion(
                .failure(
                    InterlockError(
                        .invalid,
                        "no such permit of \(service.name): it is unknown, was reported before, or is older than permit_ttl")))
            return
        }
        service.metrics.record(report.outcome)
        if report.outcome == .error, let retryAfter = report.retryAfterMilliseconds {
            let until = now.advanced(byMilliseconds: retryAfter)
            service.upstreamRetryAt = max(service.upstreamRetryAt ?? until, until)
        }
        guard !permit.isTrial else {
            let operation = BreakerScript.Operation.trialOutcome(
                id: id.description, report.outcome, expect: permit.generation,
                retryAfter: upstreamRetry(of: service, now: now))
            return run(operation, on: service) { [self] result in
                completion(result.map { _ in service.breaker.actingState(now: runtime.time.now()) }.mapError(InterlockError.init))
            }
        }
        let action = service.breaker.record(
            report.outcome, latencyMilliseconds: report.latencyMilliseconds, generation: permit.generation, now: now)
        switch action {
        case .sendNow:
            sendSums(of: service) { [self] in
                completion(.success(service.breaker.actingState(now: runtime.time.now())))
            }
            return
        case .sendAt(let instant):
            runtime.deadlines.schedule(at: instant) { [unowned self] in sendSums(of: service) {} }
        case .none:
            break
        }
        completion(.success(service.breaker.actingState(now: now)))
    }

    private func upstreamRetry(of service: GuardedService, now: Instant) -> Int64? {
        guard let until = service.upstreamRetryAt, until > now else { return nil }
        return until.millisecondsRoundedUp(since: now)
    }

    private func sendSums(of service: GuardedService, then done: @escaping () -> Void) {
        let now = runtime.time.now()
        guard !service.isReportUnderWay, let sums = service.breaker.takeUnsent(now: now) else {
            // What came meanwhile leaves when the report that is under way has been answered.
            return done()
        }
        service.isReportUnderWay = true
        let generation = service.breaker.snapshot.generation
        let operation = BreakerScript.Operation.report(
            sums, expect: generation, retryAfter: upstreamRetry(of: service, now: now))
        run(operation, on: service) { [self] result in
            service.isReportUnderWay = false
            if case .failure(let error) = result, !error.isOutcomeUnknown {
                let now = runtime.time.now()
                service.breaker.putBack(sums)
                if service.breaker.judgeLocally(now: now) { tripped(service) }
            }
            done()
            guard case .success = result, !service.breaker.unsent.isEmpty else { return }
            runtime.deadlines.schedule(at: runtime.time.now().advanced(byMilliseconds: Breaker.reportIntervalMilliseconds)) {
                [unowned self] in sendSums(of: service) {}
            }
        }
    }

    /// Everything that was counted and not sent yet; before the sidecar goes.
    func flushOutcomes(of services: [GuardedService]) {
        for service in services { sendSums(of: service) {} }
    }

    // MARK: The limit

    private func limitReached(_ service: GuardedService) {
        guard service.definition.onLimit.action == .trip, !service.isTripUnderWay else { return }
        let snapshot = service.breaker.snapshot
        guard snapshot.forced == nil, snapshot.state != .open else { return }
        service.isTripUnderWay = true
        let operation = BreakerScript.Operation.trip(
            cause: "limit", expect: snapshot.generation, pause: service.definition.onLimit.pause)
        run(operation, on: service) { _ in service.isTripUnderWay = false }
    }

    /// The limit grants again: a breaker that only the limit opened has nothing more to wait for.
    private func limitHasRoom(_ service: GuardedService) {
        let snapshot = service.breaker.snapshot
        guard snapshot.state == .halfOpen, snapshot.cause == "limit", !service.isTripUnderWay else { return }
        service.isTripUnderWay = true
        run(.close(cause: "limit", expect: snapshot.generation), on: service) { _ in service.isTripUnderWay = false }
    }

    // MARK: Forced states

    func force(
        _ service: GuardedService, to state: BreakerSnapshot.Forced?, by: String,
        completion: Completion<Result<BreakerStatus, InterlockError>>
    ) {
        run(.force(state), on: service, by: "\(runtime.id) \(by)") { [self] result in
            completion(result.map { _ in status(of: service) }.mapError(InterlockError.init))
        }
    }

    // MARK: Following the fleet

    /// Reads a service's state again, and restores what Redis has lost.
    func synchronise(_ service: GuardedService) {
        let known = service.breaker.snapshot.generation > 0 ? service.breaker.snapshot : nil
        run(.sync(known: known), on: service) { _ in }
    }

    /// A change that another sidecar made.
    func heard(_ snapshot: BreakerSnapshot, redisTime: Int64, of service: GuardedService) {
        apply(snapshot, redisTime: redisTime, to: service)
    }

    func forget(_ service: GuardedService) {
        service.reopening?.cancel()
        permits.removeAll(of: service)
    }

    private func run(
        _ operation: BreakerScript.Operation, on service: GuardedService, by: String? = nil,
        completion: @escaping (Result<Bool, RedisError>) -> Void
    ) {
        let script = BreakerScript(
            keys: runtime.keys, service: service.name, settings: service.definition.breaker, operation: operation,
            by: by ?? runtime.id, origin: runtime.id, database: runtime.database, random: .random(in: 0...1))
        runtime.pipeline.run(script) { [self] result in
            if case .success(let reply) = result {
                apply(reply.snapshot, redisTime: reply.redisTime, to: service)
            }
            completion(result.map(\.isDone))
        }
    }

    private func apply(_ snapshot: BreakerSnapshot, redisTime: Int64, to service: GuardedService) {
        let before = service.breaker.snapshot
        guard service.breaker.apply(snapshot, redisTime: redisTime, receivedAt: runtime.time.now()) else { return }
        service.metrics.record(state: snapshot.state)
        if snapshot.state == .open, before.state != .open { tripped(service) }
        defer { planReopening(of: service) }
        // A newcomer reads what others have known for long.
        guard (before.state, before.forced) != (snapshot.state, snapshot.forced) else { return }
        runtime.logger.notice(
            "A breaker changed",
            metadata: [
                "service": "\(service.name)", "from": "\(before.state.rawValue)", "to": "\(snapshot.state.rawValue)",
                "cause": "\(snapshot.cause)", "by": "\(snapshot.by)", "generation": "\(snapshot.generation)",
            ])
    }

    private func tripped(_ service: GuardedService) {
        service.metrics.trips.increment()
    }

    /// Half-opens an open breaker when its time is over, whether anybody calls or not. Every sidecar plans it; under the
    /// generation one of them does it.
    private func planReopening(of service: GuardedService) {
        service.reopening?.cancel()
        service.reopening = nil
        guard service.breaker.snapshot.forced == nil, let until = service.breaker.openUntil else { return }
        let generation = service.breaker.snapshot.generation
        service.reopening = runtime.deadlines.schedule(at: until) { [unowned self, unowned service] in
            guard service.breaker.snapshot.generation == generation else { return }
            run(.halfOpen(expect: generation), on: service) { _ in }
        }
    }
}
