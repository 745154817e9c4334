internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import Logging

/// Permits: asks a service's breaker, its limits and its bulkhead, in this order and in one step, and takes the outcome of each
/// call. Confined to the coordinator's event loop.
final class PermitCoordinator {
    /// The most permits of one service under way: one whose callers forget to report takes no other's.
    static let capacity = 25_000
    /// The least time between two complaints of one service's callers, in milliseconds.
    private static let complaintMilliseconds: Int64 = 60_000
    /// How long the next one waits for the breaker to close, when one that tried it was let through.
    private static let closingMilliseconds: Int64 = 100

    let runtime: CoordinatorRuntime
    let limits: RateLimitCoordinator
    let breakers: BreakerCoordinator
    /// Those that may wait, by number, until they have their answer.
    var waiting: [UInt64: PermitRequest] = [:]
    private var lastNumber: UInt64 = 0
    /// Whose outcome is awaited; some may have lapsed since they were last looked at.
    private(set) var underWay = 0
    /// Nobody is let to wait any more.
    private var isGoingDown = false

    init(runtime: CoordinatorRuntime, limits: RateLimitCoordinator, breakers: BreakerCoordinator) {
        self.runtime = runtime
        self.limits = limits
        self.breakers = breakers
        limits.onPermitDecided = { [unowned self] in decided($0, $1, shares: $2) }
        limits.onPermitFailed = { [unowned self] in fail($0, $1) }
        breakers.onChange = { [unowned self] in resume($0) }
    }

    /// Asks for a permit. Returns a number by which a wait can be given up; `nil`: there is none.
    func acquire(
        _ service: GuardedService, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<PermitAnswer>
    ) -> UInt64? {
        // Most calls that an open breaker refuses do not wait: they cost nothing but this.
        if waitMilliseconds <= 0, case .refuse(let retryAfter) = service.breaker.admission(now: now) {
            service.metrics.refused(.open)
            completion(.refused(.open, state: service.breaker.actingState(now: now), retryAfter: retryAfter))
            return nil
        }
        // Before a trial is asked for, and without a place in a line: it concerns nobody else.
        if let end = service.subjectPause(of: subject, now: now) {
            service.metrics.refused(.limited)
            completion(
                .refused(
                    .limited, state: service.breaker.actingState(now: now), retryAfter: end.millisecondsRoundedUp(since: now)))
            return nil
        }
        lastNumber += 1
        let request = PermitRequest(
            number: lastNumber, service: service, cost: cost, subject: subject,
            deadline: waitMilliseconds > 0 ? now.advanced(byMilliseconds: waitMilliseconds) : nil, completion: completion)
        guard request.deadline != nil else {
            askBreaker(request, now: now)
            return nil
        }
        waiting[request.number] = request
        if service.paused.isActive { lineUp(request, now: now) } else { askBreaker(request, now: now) }
        return request.isOver ? nil : request.number
    }

    /// Gives up a request that has no answer yet; what it holds is given back, and what is still on its way when it arrives.
    func cancel(_ number: UInt64) {
        guard let request = waiting[number] else { return }
        switch request.stage {
        case .limits(let mark?): limits.cancel(mark, of: request.service)
        case .place: _ = request.service.bulkhead.leave(number)
        case .pause: _ = request.service.paused.leave(number)
        case .trial, .limits(nil), .over: break
        }
        request.stage = .over
        release(request)
        forget(request)
    }

    /// Takes the outcome of a call; answers with the breaker's state after it.
    func report(
        _ service: GuardedService, permit id: PermitID, _ report: OutcomeReport,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        let now = runtime.time.now()
        guard let permit = service.permits.remove(id) else { return completion.refuse(unknownPermitOf: service) }
        underWay -= 1
        defer {
            service.bulkhead.release(heldForMilliseconds: now.millisecondsRoundedUp(since: permit.grantedAt))
            settlePlaces(of: service)
        }
        guard permit.expiresAt > now else { return completion.refuse(unknownPermitOf: service) }
        service.metrics.record(service.definition.breaker.judged(report.outcome, status: report.status))
        breakers.record(report, of: permit, id: id, now: now, completion: completion)
    }

    // MARK: The breaker

    func askBreaker(_ request: PermitRequest, now: Instant) {
        switch request.service.breaker.admission(now: now) {
        case .refuse(let retryAfter): refusedByBreaker(request, retryAfter: retryAfter, now: now)
        case .askForTrial: askForTrial(request)
        case .allow:
            request.generation = request.service.breaker.snapshot.generation
            askLimits(request, now: now)
        }
    }

    private func askForTrial(_ request: PermitRequest) {
        request.stage = .trial
        let service = request.service
        let lapse = runtime.time.now().advanced(byMilliseconds: service.definition.permitLifetime.wholeMilliseconds)
        breakers.askForTrial(service, id: PermitID(runtime.entropy.drawPair())) { [self] answer in
            let now = runtime.time.now()
            let generation = service.breaker.snapshot.generation
            guard !request.isOver else {
                if case .allowed(let trial, let isOwn) = answer {
                    breakers.returnTrial(trial, service, generation: generation)
                    if isOwn { service.breaker.ownTrialWasNotMade() }
                }
                return
            }
            switch answer {
            case .allowed(let trial, let isOwn):
                request.trial = trial
                request.isOwnTrial = isOwn
                request.trialUntil = lapse
                request.generation = generation
                if request.isTaken { _ = enter(request, now: now) { request.shares } } else { askLimits(request, now: now) }
            case .refused(let retryAfter):
                refusedByBreaker(request, retryAfter: retryAfter, now: now)
            case .failed(let error):
                fail(request, InterlockError(error))
            }
        }
    }

    /// It waits when only the limit keeps the breaker open and that ends in time, else it is answered.
    private func refusedByBreaker(_ request: PermitRequest, retryAfter: Int64, now: Instant) {
        release(request)
        if case .paused(let until) = request.service.gate(now: now), let deadline = deadline(of: request), until <= deadline,
            pause(request, earliest: now, now: now)
        {
            return
        }
        refuse(request, .open, retryAfter: retryAfter, now: now)
    }

    // MARK: The limits

    /// - Parameter lacksRoom: a limit has refused it just now, and it waits there, whatever the places.
    private func askLimits(_ request: PermitRequest, lacksRoom: Bool = false, now: Instant) {
        let service = request.service
        guard service.definition.limits.contains(where: { !$0.isPerSubject || request.subject != nil }) else {
            request.isTaken = true
            _ = enter(request, now: now) { [] }
            // The limit that opened it may be configured no longer.
            breakers.limitHasRoom(service)
            return
        }
        // Whoever finds no place is told so, or waits for one, before anything is taken for it.
        if !request.hasPlace, !lacksRoom, isFull(service, now: now) { return lineUpForPlace(request, now: now) }
        // Neither a trial nor a place is kept while its call waits for something else.
        let mayWait = !service.pausesAtLimit && !request.isTrial && !request.hasPlace
        let wait = mayWait ? deadline(of: request)?.millisecondsRoundedUp(since: now) ?? 0 : 0
        request.stage = .limits(nil)
        let mark = limits.ask(
            service, cost: request.cost, subject: request.subject, waitMilliseconds: wait, now: now, caller: .permit(request))
        // It may have been decided, and gone on, before this returned.
        if case .limits(nil) = request.stage { request.stage = .limits(mark) }
    }

    /// `true`: what was taken from the limits has found its caller, or is kept for it.
    private func decided(_ request: PermitRequest, _ answer: LimitAnswer, shares: () -> [TakenShare]) -> Bool {
        guard !request.isOver else { return !answer.isTaken }
        let now = runtime.time.now()
        guard let retryAfter = answer.retryAfter else {
            request.isTaken = true
            return enter(request, now: now, shares: shares)
        }
        if answer.isNeverSatisfiable {
            request.service.metrics.refused(.limited)
            fail(request, .neverGranted(cost: request.cost, by: answer, of: request.service))
            return true
        }
        let wasHurried = request.isTrial || request.hasPlace
        release(request)
        if wasHurried, !request.service.pausesAtLimit, let deadline = deadline(of: request),
            now.advanced(byMilliseconds: retryAfter) <= deadline
        {
            // Now it waits for the limit, and asks for the rest again after that.
            request.generation = 0
            askLimits(request, lacksRoom: true, now: now)
            return true
        }
        if request.service.pausesAtLimit,
            pause(request, earliest: now.advanced(byMilliseconds: retryAfter), now: now)
        {
            return true
        }
        refuse(request, .limited, retryAfter: retryAfter, now: now)
        return true
    }

    // MARK: The place

    /// The limits have granted it: it needs a place, and the breaker may have changed while it waited. `true`: what was taken
    /// has found its caller, or is kept for it.
    func enter(_ request: PermitRequest, now: Instant, shares: () -> [TakenShare]) -> Bool {
        let service = request.service
        guard service.isConfigured else {
            fail(request, .unconfigured(service.name))
            return false
        }
        if request.trial != nil, request.generation != service.breaker.snapshot.generation || request.trialUntil <= now {
            // The half-open time that it is of is over, or the trial's own: while it waited others may have been given.
            giveTrialBack(request)
        }
        if !request.isTrial {
            switch service.breaker.admission(now: now) {
            case .refuse(let retryAfter):
                refusedByBreaker(request, retryAfter: retryAfter, now: now)
                return false
            // Under the same generation it has been let through: Redis is away, and cannot count trials.
            case .askForTrial where request.generation != service.breaker.snapshot.generation:
                request.shares = shares()
                askForTrial(request)
                return true
            case .allow, .askForTrial:
                request.generation = service.breaker.snapshot.generation
            }
        }
        guard !request.hasPlace else { return grant(request, now: now) }
        guard !isFull(service, now: now) else {
            // What was taken is not kept through the wait: it would be called long after it was counted.
            request.shares = shares()
            lineUpForPlace(request, now: now)
            return true
        }
        request.hasPlace = service.bulkhead.enter(request.number, deadline: nil, now: now) == .taken
        return grant(request, now: now)
    }

    /// No place is free: it waits for one, holding nothing, or is refused.
    private func lineUpForPlace(_ request: PermitRequest, now: Instant) {
        let service = request.service
        release(request)
        switch service.bulkhead.enter(
            request.number, of: request.subject, isBack: request.hasWaited, deadline: deadline(of: request), now: now)
        {
        case .taken:
            request.hasPlace = true
            askBreaker(request, now: now)
        case .waiting:
            request.stage = .place
            request.hasWaited = true
            planPlaces(of: service)
        case .full:
            refuseBusy(request, now: now)
        }
    }

    private func grant(_ request: PermitRequest, now: Instant) -> Bool {
        let service = request.service
        guard service.permits.count < Self.capacity else {
            release(request)
            tellOfUnreported(service, now: now)
            refuse(request, .busy, retryAfter: Breaker.forcedRetryMilliseconds, now: now)
            return false
        }
        let id = request.trial ?? PermitID(runtime.entropy.drawPair())
        let lifetime = service.definition.permitLifetime.wholeMilliseconds
        if request.trial == nil, service.breaker.callBegins(lifetimeMilliseconds: lifetime, now: now) {
            request.isOwnTrial = true
        }
        let permit = PermitTable.Permit(
            service: service, generation: request.generation, isTrial: request.trial != nil, isOwnTrial: request.isOwnTrial,
            subject: request.subject, grantedAt: now, expiresAt: now.advanced(byMilliseconds: lifetime))
        service.permits.insert(permit, id: id)
        underWay += 1
        let isDelivered = request.answer(.granted(id, state: service.breaker.actingState(now: now)))
        forget(request, wasGranted: isDelivered)
        guard isDelivered else {
            if service.permits.remove(id) != nil { underWay -= 1 }
            release(request)
            return false
        }
        service.metrics.permitsGranted.increment()
        return true
    }

    /// Its callers take permits and do not say what became of the calls.
    private func tellOfUnreported(_ service: GuardedService, now: Instant) {
        service.metrics.refusedForUnreported.increment()
        guard service.nextComplaint <= now else { return }
        service.nextComplaint = now.advanced(byMilliseconds: Self.complaintMilliseconds)
        runtime.logger.log(
            .permitsUnreported, ["service": service.name, "permits": "\(service.permits.count)"])
    }

    private func isFull(_ service: GuardedService, now: Instant) -> Bool {
        guard service.bulkhead.isFull else { return false }
        dropLapsed(of: service, now: now)
        settlePlaces(of: service)
        return service.bulkhead.isFull
    }

    /// Permits whose outcome is not awaited any more free their places.
    func dropLapsed(of service: GuardedService, now: Instant) {
        while service.permits.removeLapsed(now: now) != nil {
            underWay -= 1
            service.bulkhead.release(heldForMilliseconds: nil)
        }
    }

    // MARK: Ends

    /// Until when it may wait.
    func deadline(of request: PermitRequest) -> Instant? { isGoingDown ? nil : request.deadline }

    func refuse(_ request: PermitRequest, _ reason: PermitAnswer.Reason, retryAfter: Int64, now: Instant) {
        let service = request.service
        service.metrics.refused(reason)
        request.answer(.refused(reason, state: service.breaker.actingState(now: now), retryAfter: retryAfter))
        forget(request)
    }

    func refuseBusy(_ request: PermitRequest, now: Instant) {
        refuse(request, .busy, retryAfter: request.service.bulkhead.retryMilliseconds, now: now)
    }

    func fail(_ request: PermitRequest, _ error: InterlockError) {
        guard !request.isOver else { return }
        release(request)
        request.answer(.failed(error))
        forget(request)
    }

    /// It waits for something else, and asks for a trial again after that.
    private func giveTrialBack(_ request: PermitRequest) {
        guard request.isTrial else { return }
        breakers.returnTrial(request.trial, request.service, generation: request.generation)
        if request.isOwnTrial { request.service.breaker.ownTrialWasNotMade() }
        request.trial = nil
        request.isOwnTrial = false
        request.generation = 0
    }

    /// Gives back what it holds.
    func release(_ request: PermitRequest) {
        let service = request.service
        giveTrialBack(request)
        limits.giveBack(service, request.shares)
        request.shares = []
        request.isTaken = false
        guard request.hasPlace else { return }
        request.hasPlace = false
        service.bulkhead.release(heldForMilliseconds: nil)
        settlePlaces(of: service)
    }

    private func forget(_ request: PermitRequest, wasGranted: Bool = false) {
        guard request.deadline != nil else { return }
        waiting[request.number] = nil
        let now = runtime.time.now()
        let patience = now.advanced(byMilliseconds: Self.closingMilliseconds)
        guard request.service.paused.returned(request.number, wasGranted: wasGranted, patience: patience) else { return }
        planResumption(of: request.service, at: wasGranted ? patience : now)
    }

    /// Nobody is left waiting, and nobody will be.
    func goDown(_ services: [GuardedService]) {
        isGoingDown = true
        for service in services { failWaiting(service, .goingDown) }
    }

    /// The service is no longer configured.
    func removeAll(of service: GuardedService) {
        service.isConfigured = false
        failWaiting(service, .unconfigured(service.name))
        underWay -= service.permits.count
        service.permits = PermitTable()
        service.placeAlarm.cancel()
        service.pauseAlarm.cancel()
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
