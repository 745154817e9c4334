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
        _ service: GuardedService, id: PermitID, _ outcome: Outcome, generation: Int64, pauseMilliseconds: Int64?,
        now: Instant, completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let operation = BreakerOperation.trialOutcome(
            id: id.description, outcome, expectedGeneration: generation,
            retryAfterMilliseconds: service.gate.upstreamRetryMilliseconds(now: now),
            pauseMilliseconds: pauseMilliseconds)
        run(operation, on: service) { [self] result in
            if case .failure(let error) = result {
                guard error.isUnavailability else {
                    completion(.failure(InterlockError(error)))
                    return
                }
                if outcome == .error {
                    let minimumMilliseconds = service.gate.definition.breaker.openFor.lowerBound.wholeMilliseconds
                    tripLocally(service, .failures, forMilliseconds: pauseMilliseconds ?? minimumMilliseconds)
                }
            }
            completion(.success(actingState(of: service)))
        }
    }

    // MARK: Outcomes

    /// Applies the outcome of a permitted call to the breaker. Calls `completion` with the breaker's new state.
    func record(
        _ report: OutcomeReport, of permit: PermitTable.Permit, id: PermitID, _ service: GuardedService, now: Instant,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let complete = { [self] () -> Void in completion(.success(actingState(of: service))) }
        switch service.gate.outcomeReported(report, of: permit, now: now) {
        case .trial(let outcome, let pauseMilliseconds):
            sendTrialOutcome(
                service, id: id, outcome, generation: permit.generation, pauseMilliseconds: pauseMilliseconds, now: now,
                completion: completion)
        case .trip(let pauseMilliseconds): tripForPause(service, pauseMilliseconds, then: complete)
        case .counted(.sendNow): sendSums(of: service, then: complete)
        case .counted(.sendNext): service.awaitingReport.append(complete)
        case .counted(let action):
            execute(action, for: service)
            complete()
        }
    }

    /// Opens the breaker for the pause that the upstream asked for. Calls `done` once Redis has replied.
    private func tripForPause(_ service: GuardedService, _ pauseMilliseconds: Int64, then done: @escaping () -> Void) {
        let settings = service.gate.definition.breaker
        let generation = service.gate.breaker.snapshot.generation
        var operation = BreakerOperation.trip(
            .retryAfter, expectedGeneration: generation, openFor: settings.openFor,
            pauseMilliseconds: pauseMilliseconds)
        if settings.isDecidedByVotes {
            tripLocally(service, .retryAfter, forMilliseconds: pauseMilliseconds)
            operation = .vote(.retryAfter, expectedGeneration: generation, pauseMilliseconds: pauseMilliseconds)
        }
        run(operation, on: service) { [self] result in
            service.gate.breakerChangeEnded()
            if case .failure(let error) = result, error.isUnavailability {
                tripLocally(service, .retryAfter, forMilliseconds: pauseMilliseconds)
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
                execute(service.gate.breaker.scheduledReportDue(now: runtime.time.now()), for: service)
            }
        case .vote(let cause):
            recordLocalTrip(service, cause)
            let generation = service.gate.breaker.snapshot.generation
            run(.vote(cause, expectedGeneration: generation, pauseMilliseconds: nil), on: service) { _ in }
            execute(service.gate.breaker.scheduleReport(now: runtime.time.now()), for: service)
        }
    }

    /// Sends the unsent outcomes of a service. Calls `done` once Redis has replied.
    private func sendSums(of service: GuardedService, then done: @escaping () -> Void) {
        let now = runtime.time.now()
        guard let sums = service.gate.breaker.takeUnsent(now: now) else { return done() }
        let generation = service.gate.breaker.snapshot.generation
        let operation = BreakerOperation.report(
            sums, expectedGeneration: generation,
            retryAfterMilliseconds: service.gate.upstreamRetryMilliseconds(now: now))
        run(operation, on: service) { [self] result in
            let now = runtime.time.now()
            var lostSums: OutcomeSums?
            if case .failure(let error) = result {
                if !error.isOutcomeUnknown { lostSums = sums }
                if error.isUnavailability, let cause = service.gate.breaker.evaluateLocally(now: now) {
                    recordLocalTrip(service, cause)
                }
            }
            let nextAction = service.gate.breaker.reportEnded(lost: lostSums, generation: generation, now: now)
            let completions = service.awaitingReport
            service.awaitingReport = []
            done()
            guard case .success = result, nextAction == .sendNow else {
                for complete in completions { complete() }
                return execute(nextAction, for: service)
            }
            sendSums(of: service) { for complete in completions { complete() } }
        }
    }

    /// Sends all outcomes that were counted but are not sent yet.
    func flushOutcomes(of services: [GuardedService]) {
        for service in services { sendSums(of: service) {} }
    }

    func actingState(of service: GuardedService) -> BreakerSnapshot.State {
        service.gate.breaker.actingState(now: runtime.time.now())
    }
}
