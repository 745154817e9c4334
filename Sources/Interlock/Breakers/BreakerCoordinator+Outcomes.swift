internal import Hiredis
internal import InterlockCore

extension BreakerCoordinator {
    // MARK: Trials

    /// Redis' reply to the request for a trial permit.
    enum TrialAnswer {
        /// The call may be made: as this trial, or, when the breaker has closed meanwhile or Redis is away, as any other.
        /// `isOwn`: as this sidecar's own trial.
        case allowed(PermitID?, isOwn: Bool = false)
        /// `retryAfter` is in milliseconds.
        case refused(retryAfter: Int64)
        case failed(RedisError)
    }

    /// Asks for one of the fleet's trial permits; for no more at once than there are, however many calls come.
    func askForTrial(_ service: GuardedService, id: PermitID, completion: @escaping (TrialAnswer) -> Void) {
        guard service.trialsAskedFor < service.definition.breaker.halfOpenPermits else {
            return completion(.refused(retryAfter: Breaker.trialRetryMilliseconds))
        }
        service.trialsAskedFor += 1
        let operation = BreakerOperation.trial(
            id: id.description, lifetime: service.definition.permitLifetime.wholeMilliseconds,
            known: service.breaker.snapshot.generation)
        run(operation, on: service) { [self] result in
            service.trialsAskedFor -= 1
            let now = runtime.time.now()
            switch result {
            case .success(let reply):
                let state = service.breaker.snapshot.state
                guard !reply.isDone else { return completion(.allowed(state == .halfOpen ? id : nil)) }
                if state == .halfOpen {
                    service.breaker.trialsAreTaken(now: now, forMilliseconds: Breaker.trialRetryMilliseconds)
                }
                guard case .refuse(let retryAfter) = service.breaker.admission(now: now) else {
                    return completion(.refused(retryAfter: Breaker.trialRetryMilliseconds))
                }
                completion(.refused(retryAfter: retryAfter))
            case .failure(let error):
                guard error.isUnavailability, service.definition.whenRedisIsDown != .deny else {
                    return completion(.failed(error))
                }
                // Alone, and the open time is over: what may be called is found out by calling, one call after another.
                let lifetime = service.definition.permitLifetime.wholeMilliseconds
                switch service.breaker.beginTrialAlone(lifetimeMilliseconds: lifetime, now: now) {
                case let isOwn?: completion(.allowed(nil, isOwn: isOwn))
                case nil: completion(.refused(retryAfter: Breaker.trialRetryMilliseconds))
                }
            }
        }
    }

    /// Frees the place of a trial that was not made.
    func returnTrial(_ trial: PermitID?, _ service: GuardedService, generation: Int64) {
        guard let trial else { return }
        let operation = BreakerOperation.trialOutcome(
            id: trial.description, .ignore, expect: generation, retryAfter: nil, pause: nil)
        run(operation, on: service) { _ in }
    }

    private func trialEnded(
        _ service: GuardedService, id: PermitID, _ outcome: Outcome, generation: Int64, pause: Int64?, now: Instant,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let counted = service.definition.breaker.isMetricsOnly ? .ignore : outcome
        let operation = BreakerOperation.trialOutcome(
            id: id.description, counted, expect: generation, retryAfter: upstreamRetry(of: service, now: now), pause: pause)
        run(operation, on: service) { [self] result in
            if case .failure(let error) = result {
                guard error.isUnavailability else {
                    completion(.failure(InterlockError(error)))
                    return
                }
                if counted == .error {
                    let openFor = service.definition.breaker.openFor.lowerBound.wholeMilliseconds
                    tripAlone(service, .failures, forMilliseconds: pause ?? openFor)
                }
            }
            completion(.success(actingState(of: service)))
        }
    }

    // MARK: Outcomes

    /// Counts the outcome of a permitted call; answers with the breaker's state after it.
    func record(
        _ report: OutcomeReport, of permit: PermitTable.Permit, id: PermitID, now: Instant,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let service = permit.service
        let settings = service.definition.breaker
        let isSlow = settings.isSlow(latencyMilliseconds: report.latencyMilliseconds)
        let outcome: Outcome =
            if report.isUnfinished, isSlow {
                permit.isTrial || permit.isOwnTrial ? .error : .ok
            } else {
                settings.judged(report.outcome, status: report.status)
            }
        if outcome == .error, settings.honoursRetryAfter, let retryAfter = report.retryAfterMilliseconds {
            let until = now.advanced(byMilliseconds: min(retryAfter, settings.longestPause))
            service.upstreamRetryAt = max(service.upstreamRetryAt ?? until, until)
        }
        var pause = settings.pause(
            askedFor: report.retryAfterMilliseconds, outcome: report.outcome, status: report.status)
        if let subject = permit.subject, report.status == 429, let asked = pause {
            // What finds no room is not paused: in no case are the others.
            service.subjectPauses.pause(subject, until: now.advanced(byMilliseconds: asked), now: now)
            pause = nil
        }
        guard !permit.isTrial else {
            // A trial is judged by what the breaker opened for.
            let isStillSlow =
                service.breaker.snapshot.cause == BreakerCause.slow.rawValue && outcome == .ok && isSlow
            return trialEnded(
                service, id: id, isStillSlow ? .error : outcome, generation: permit.generation, pause: pause, now: now,
                completion: completion)
        }
        if let pause, openForPause(service, pause, generation: permit.generation, completion: completion) { return }
        let action = service.breaker.record(
            outcome, latencyMilliseconds: report.latencyMilliseconds, generation: permit.generation,
            isOwnTrial: permit.isOwnTrial, now: now)
        let answer = { [self] () -> Void in completion(.success(actingState(of: service))) }
        switch action {
        case .sendNow: sendSums(of: service, then: answer)
        case .sendNext: service.awaitingReport.append(answer)
        default:
            carryOut(action, for: service)
            answer()
        }
    }

    /// The upstream says for how long it wants to be left alone. `false`: that is of no consequence now, and the outcome
    /// is one like others.
    private func openForPause(
        _ service: GuardedService, _ pause: Int64, generation: Int64,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) -> Bool {
        let snapshot = service.breaker.snapshot
        guard generation == snapshot.generation, snapshot.state != .open, snapshot.forced == nil, !service.isTripUnderWay,
            service.breaker.ownTrip(now: runtime.time.now()) == nil
        else { return false }
        let settings = service.definition.breaker
        service.isTripUnderWay = true
        var operation = BreakerOperation.trip(
            .retryAfter, expect: generation, openFor: settings.openFor, pause: pause)
        if settings.isByReporters {
            tripAlone(service, .retryAfter, forMilliseconds: pause)
            operation = .vote(.retryAfter, expect: generation, pause: pause)
        }
        run(operation, on: service) { [self] result in
            service.isTripUnderWay = false
            if case .failure(let error) = result, error.isUnavailability {
                tripAlone(service, .retryAfter, forMilliseconds: pause)
            }
            completion(.success(actingState(of: service)))
        }
        return true
    }

    private func carryOut(_ action: Breaker.ReportAction, for service: GuardedService) {
        switch action {
        case .none, .sendNext:
            break
        case .sendNow:
            sendSums(of: service) {}
        case .sendAt(let instant):
            runtime.deadlines.schedule(at: instant) { [unowned self] in
                carryOut(service.breaker.plannedReportIsDue(now: runtime.time.now()), for: service)
            }
        case .vote(let cause):
            trippedAlone(service, cause)
            run(.vote(cause, expect: service.breaker.snapshot.generation, pause: nil), on: service) { _ in }
            carryOut(service.breaker.planReport(now: runtime.time.now()), for: service)
        }
    }

    private func sendSums(of service: GuardedService, then done: @escaping () -> Void) {
        let now = runtime.time.now()
        guard let sums = service.breaker.takeUnsent(now: now) else { return done() }
        let generation = service.breaker.snapshot.generation
        let operation = BreakerOperation.report(
            sums, expect: generation, retryAfter: upstreamRetry(of: service, now: now))
        run(operation, on: service) { [self] result in
            let now = runtime.time.now()
            var lost: OutcomeSums?
            if case .failure(let error) = result {
                if !error.isOutcomeUnknown { lost = sums }
                if error.isUnavailability, let cause = service.breaker.judgeAlone(now: now) { trippedAlone(service, cause) }
            }
            let next = service.breaker.reportEnded(lost: lost, generation: generation, now: now)
            done()
            let answers = service.awaitingReport
            service.awaitingReport = []
            guard next != .sendNow else { return sendSums(of: service) { for answer in answers { answer() } } }
            for answer in answers { answer() }
            carryOut(next, for: service)
        }
    }

    /// Everything that was counted and not sent yet; before the sidecar goes, and when Redis is back.
    func flushOutcomes(of services: [GuardedService]) {
        for service in services { sendSums(of: service) {} }
    }

    private func upstreamRetry(of service: GuardedService, now: Instant) -> Int64? {
        guard let until = service.upstreamRetryAt, until > now else { return nil }
        return until.millisecondsRoundedUp(since: now)
    }

    func actingState(of service: GuardedService) -> BreakerSnapshot.State {
        service.breaker.actingState(now: runtime.time.now())
    }
}
