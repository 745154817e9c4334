internal import InterlockCore
internal import RedisClient

extension ServiceExecutor {
    // MARK: Trials

    /// Returns the trial permit of a call that was not made, so that another sidecar can use it.
    func returnTrial(_ trial: PermitID, of service: GuardedService, generation: Int64) {
        let operation = BreakerOperation.trialOutcome(
            id: trial.description, .ignore, expectedGeneration: generation, retryAfterMilliseconds: nil, pauseMilliseconds: nil)
        run(operation, on: service) { _ in }
    }

    private func sendTrialOutcome(
        _ service: GuardedService, id: PermitID, _ outcome: Outcome, generation: Int64, pause: Int64?, now: Instant,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let operation = BreakerOperation.trialOutcome(
            id: id.description, outcome, expectedGeneration: generation,
            retryAfterMilliseconds: service.gate.upstreamRetry(now: now), pauseMilliseconds: pause)
        run(operation, on: service) { [self] result in
            if case .failure(let error) = result {
                guard error.isUnavailability else {
                    completion(.failure(InterlockError(error)))
                    return
                }
                if outcome == .error {
                    let openFor = service.gate.definition.breaker.openFor.lowerBound.wholeMilliseconds
                    tripLocally(service, .failures, forMilliseconds: pause ?? openFor)
                }
            }
            completion(.success(actingState(of: service)))
        }
    }

    // MARK: Outcomes

    /// Applies the outcome of a permitted call to the breaker, and answers with the breaker's new state.
    func record(
        _ report: OutcomeReport, of permit: PermitTable.Permit, id: PermitID, _ service: GuardedService, now: Instant,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let answer = { [self] () -> Void in completion(.success(actingState(of: service))) }
        switch service.gate.reported(report, of: permit, now: now) {
        case .trial(let outcome, let pause):
            sendTrialOutcome(
                service, id: id, outcome, generation: permit.generation, pause: pause, now: now, completion: completion)
        case .trip(let pause): tripForPause(service, pause, then: answer)
        case .counted(.sendNow): sendSums(of: service, then: answer)
        case .counted(.sendNext): service.awaitingReport.append(answer)
        case .counted(let action):
            execute(action, for: service)
            answer()
        }
    }

    /// Opens the breaker for `pause` milliseconds, as the upstream asked. Calls `done` once Redis has replied.
    private func tripForPause(_ service: GuardedService, _ pause: Int64, then done: @escaping () -> Void) {
        let settings = service.gate.definition.breaker
        let generation = service.gate.breaker.snapshot.generation
        var operation = BreakerOperation.trip(
            .retryAfter, expectedGeneration: generation, openFor: settings.openFor, pauseMilliseconds: pause)
        if settings.isDecidedByVotes {
            tripLocally(service, .retryAfter, forMilliseconds: pause)
            operation = .vote(.retryAfter, expectedGeneration: generation, pauseMilliseconds: pause)
        }
        run(operation, on: service) { [self] result in
            service.gate.breakerChangeEnded()
            if case .failure(let error) = result, error.isUnavailability {
                tripLocally(service, .retryAfter, forMilliseconds: pause)
            }
            done()
        }
    }

    private func execute(_ action: Breaker.ReportAction, for service: GuardedService) {
        switch action {
        case .none, .sendNext:
            break
        case .sendNow:
            sendSums(of: service) {}
        case .sendAt(let instant):
            runtime.deadlines.schedule(at: instant) { [unowned self] in
                execute(service.gate.breaker.handlePlannedReport(now: runtime.time.now()), for: service)
            }
        case .vote(let cause):
            recordLocalTrip(service, cause)
            let generation = service.gate.breaker.snapshot.generation
            run(.vote(cause, expectedGeneration: generation, pauseMilliseconds: nil), on: service) { _ in }
            execute(service.gate.breaker.planReport(now: runtime.time.now()), for: service)
        }
    }

    private func sendSums(of service: GuardedService, then done: @escaping () -> Void) {
        let now = runtime.time.now()
        guard let sums = service.gate.breaker.takeUnsent(now: now) else { return done() }
        let generation = service.gate.breaker.snapshot.generation
        let operation = BreakerOperation.report(
            sums, expectedGeneration: generation, retryAfterMilliseconds: service.gate.upstreamRetry(now: now))
        run(operation, on: service) { [self] result in
            let now = runtime.time.now()
            var lost: OutcomeSums?
            if case .failure(let error) = result {
                if !error.isOutcomeUnknown { lost = sums }
                if error.isUnavailability, let cause = service.gate.breaker.evaluateLocally(now: now) {
                    recordLocalTrip(service, cause)
                }
            }
            let next = service.gate.breaker.reportEnded(lost: lost, generation: generation, now: now)
            let answers = service.awaitingReport
            service.awaitingReport = []
            done()
            guard case .success = result, next == .sendNow else {
                for answer in answers { answer() }
                return execute(next, for: service)
            }
            sendSums(of: service) { for answer in answers { answer() } }
        }
    }

    /// Sends all outcomes that were counted but not sent yet.
    func flushOutcomes(of services: [GuardedService]) {
        for service in services { sendSums(of: service) {} }
    }

    func actingState(of service: GuardedService) -> BreakerSnapshot.State {
        service.gate.breaker.actingState(now: runtime.time.now())
    }
}
