internal import Interlock
internal import InterlockCore

extension BreakerRoom {
    // MARK: Trials

    /// What Redis said of the wish for a trial permit.
    enum TrialAnswer {
        /// The call may be made: as this trial, or, when the breaker has closed meanwhile or Redis is away, as any other.
        case allowed(String?)
        /// `retryAfter` is in milliseconds.
        case refused(retryAfter: Int64)
        case failed
    }

    /// Asks for one of the fleet's trial permits; for no more at once than there are, however many calls come.
    func askForTrial(_ desk: Desk, id: String, completion: @escaping (TrialAnswer) -> Void) {
        guard desk.trialsAskedFor < desk.settings.halfOpenPermits else {
            return completion(.refused(retryAfter: Breaker.trialRetryMilliseconds))
        }
        desk.trialsAskedFor += 1
        let operation = BreakerOperation.trial(
            id: id, lifetime: desk.service.definition.permitLifetime.wholeMilliseconds,
            known: desk.breaker.snapshot.generation)
        run(operation, at: desk) { [self] result in
            desk.trialsAskedFor -= 1
            switch result {
            case .success(let reply):
                let state = desk.breaker.snapshot.state
                guard !reply.isDone else { return completion(.allowed(state == .halfOpen ? id : nil)) }
                if state == .halfOpen {
                    desk.breaker.trialsAreTaken(now: now, forMilliseconds: Breaker.trialRetryMilliseconds)
                }
                guard case .refuse(let retryAfter) = desk.breaker.admission(now: now) else {
                    return completion(.refused(retryAfter: Breaker.trialRetryMilliseconds))
                }
                completion(.refused(retryAfter: retryAfter))
            case .failure:
                // Alone, and the open time is over: what may be called is found out by calling.
                completion(desk.service.definition.whenRedisIsDown == .deny ? .failed : .allowed(nil))
            }
        }
    }

    /// Frees the place of a trial that was not made.
    func returnTrial(_ trial: String?, _ desk: Desk, generation: Int64) {
        guard let trial else { return }
        run(.trialOutcome(id: trial, .ignore, expect: generation, retryAfter: nil, pause: nil), at: desk) { _ in }
    }

    private func trialEnded(
        _ desk: Desk, id: String, _ outcome: Outcome, generation: Int64, pause: Int64?, done: @escaping () -> Void
    ) {
        let counted = desk.settings.isMetricsOnly ? .ignore : outcome
        let operation = BreakerOperation.trialOutcome(
            id: id, counted, expect: generation, retryAfter: upstreamRetry(of: desk), pause: pause)
        run(operation, at: desk) { [self] result in
            if case .failure = result, counted == .error {
                let openFor = desk.settings.openFor.lowerBound.wholeMilliseconds
                desk.breaker.tripAlone(.failures, forMilliseconds: pause ?? openFor, now: now)
            }
            done()
        }
    }

    // MARK: Outcomes

    /// Counts the outcome of a permitted call.
    func record(
        _ report: OutcomeReport, of permit: PermitRoom.Permit, id: String, done: @escaping () -> Void
    ) {
        let desk = permit.desk
        let settings = desk.settings
        let outcome = settings.judged(report.outcome, status: report.status)
        if outcome == .error, settings.honoursRetryAfter, let retryAfter = report.retryAfterMilliseconds {
            let longest = BreakerSettings.longestRetryAfter.wholeMilliseconds
            let until = now.advanced(byMilliseconds: min(retryAfter, longest))
            desk.upstreamRetryAt = max(desk.upstreamRetryAt ?? until, until)
        }
        let pause = settings.pause(
            askedFor: report.retryAfterMilliseconds, outcome: report.outcome, status: report.status)
        guard !permit.isTrial else {
            // A trial is judged by what the breaker opened for.
            let isStillSlow =
                desk.breaker.snapshot.cause == BreakerCause.slow.rawValue && outcome == .ok
                && settings.isSlow(latencyMilliseconds: report.latencyMilliseconds)
            return trialEnded(
                desk, id: id, isStillSlow ? .error : outcome, generation: permit.generation, pause: pause, done: done)
        }
        if let pause, openForPause(desk, pause, generation: permit.generation, done: done) { return }
        let action = desk.breaker.record(
            outcome, latencyMilliseconds: report.latencyMilliseconds, generation: permit.generation, now: now)
        guard action != .sendNow else { return sendSums(of: desk, then: done) }
        carryOut(action, at: desk)
        done()
    }

    /// The upstream says for how long it wants to be left alone. `false`: that is of no consequence now, and the outcome is one
    /// like others.
    private func openForPause(_ desk: Desk, _ pause: Int64, generation: Int64, done: @escaping () -> Void) -> Bool {
        let snapshot = desk.breaker.snapshot
        guard generation == snapshot.generation, snapshot.state != .open, snapshot.forced == nil, !desk.isTripUnderWay,
            desk.breaker.ownTrip(now: now) == nil
        else { return false }
        desk.isTripUnderWay = true
        var operation = BreakerOperation.trip(
            .retryAfter, expect: generation, openFor: desk.settings.openFor, pause: pause)
        if desk.settings.isByReporters {
            desk.breaker.tripAlone(.retryAfter, forMilliseconds: pause, now: now)
            operation = .vote(.retryAfter, expect: generation, pause: pause)
        }
        run(operation, at: desk) { [self] result in
            desk.isTripUnderWay = false
            if case .failure = result { desk.breaker.tripAlone(.retryAfter, forMilliseconds: pause, now: now) }
            done()
        }
        return true
    }

    private func carryOut(_ action: Breaker.ReportAction, at desk: Desk) {
        switch action {
        case .none:
            break
        case .sendNow:
            sendSums(of: desk) {}
        case .sendAt(let instant):
            sidecar.timer(at: instant) { [unowned self] in
                carryOut(desk.breaker.plannedReportIsDue(now: now), at: desk)
            }
        case .vote(let cause):
            run(.vote(cause, expect: desk.breaker.snapshot.generation, pause: nil), at: desk) { _ in }
            carryOut(desk.breaker.planReport(now: now), at: desk)
        }
    }

    func sendSums(of desk: Desk, then done: @escaping () -> Void) {
        guard let sums = desk.breaker.takeUnsent(now: now) else { return done() }
        let generation = desk.breaker.snapshot.generation
        let operation = BreakerOperation.report(sums, expect: generation, retryAfter: upstreamRetry(of: desk))
        run(operation, at: desk) { [self] result in
            var lost: OutcomeSums?
            if case .failure(let error) = result {
                if !error.isOutcomeUnknown { lost = sums }
                _ = desk.breaker.judgeAlone(now: now)
            }
            let next = desk.breaker.reportEnded(lost: lost, generation: generation, now: now)
            done()
            carryOut(next, at: desk)
        }
    }

    private func upstreamRetry(of desk: Desk) -> Int64? {
        guard let until = desk.upstreamRetryAt, until > now else { return nil }
        return until.millisecondsRoundedUp(since: now)
    }
}
