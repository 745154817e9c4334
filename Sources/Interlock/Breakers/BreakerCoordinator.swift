internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import Logging

/// Breakers: keeps each service's copy up to date, asks Redis for changes, and counts outcomes. Confined to the
/// coordinator's event loop.
final class BreakerCoordinator {
    private let runtime: CoordinatorRuntime

    init(runtime: CoordinatorRuntime, limits: RateLimitCoordinator) {
        self.runtime = runtime
        limits.onLimited = { [unowned self] in limitReached($0) }
        limits.onTaken = { [unowned self] in limitHasRoom($0) }
    }

    func status(of service: GuardedService) -> BreakerStatus {
        BreakerStatus(
            service: service.name, state: service.breaker.actingState(now: runtime.time.now()),
            fleet: service.breaker.snapshot)
    }

    // MARK: Trials

    /// What Redis said of the wish for a trial permit.
    enum TrialAnswer {
        /// The call may be made: as this trial, or, when the breaker has closed meanwhile or Redis is away, as any other.
        case allowed(PermitID?)
        /// `retryAfter` is in milliseconds.
        case refused(retryAfter: Int64)
        case failed(RedisError)
    }

    /// Asks for one of the fleet's trial permits.
    func askForTrial(_ service: GuardedService, id: PermitID, completion: @escaping (TrialAnswer) -> Void) {
        let lifetime = service.definition.permitLifetime.wholeMilliseconds
        run(.trial(id: id.description, lifetime: lifetime), on: service) { [self] result in
            let now = runtime.time.now()
            switch result {
            case .success(let isGranted):
                let state = service.breaker.snapshot.state
                guard !isGranted else { return completion(.allowed(state == .halfOpen ? id : nil)) }
                if state == .halfOpen {
                    service.breaker.trialsAreTaken(now: now, forMilliseconds: Self.trialRetryMilliseconds)
                }
                guard case .refuse(let retryAfter) = service.breaker.admission(now: now) else {
                    return completion(.refused(retryAfter: Self.trialRetryMilliseconds))
                }
                completion(.refused(retryAfter: retryAfter))
            case .failure(let error):
                guard error.isUnavailability, service.definition.whenRedisIsDown != .deny else {
                    return completion(.failed(error))
                }
                // Alone, and the open time is over: what may be called is found out by calling.
                completion(.allowed(nil))
            }
        }
    }

    /// How long a caller is told to wait when all trial permits are under way, and for how long Redis is not asked again.
    private static let trialRetryMilliseconds: Int64 = 100

    /// Frees the place of a trial that was not made.
    func returnTrial(_ trial: PermitID?, _ service: GuardedService, generation: Int64) {
        guard let trial else { return }
        run(
            .trialOutcome(id: trial.description, .ignore, expect: generation, retryAfter: nil), on: service
        ) { _ in }
    }

    // MARK: Outcomes

    /// Counts the outcome of a permitted call; answers with the breaker's state after it.
    func record(
        _ report: OutcomeReport, of permit: PermitTable.Permit, id: PermitID, now: Instant,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let service = permit.service
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
