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
    var waiting: [UInt64: PermitWish] = [:]
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
        let wish = PermitWish(
            number: lastNumber, service: service, cost: cost, subject: subject,
            deadline: waitMilliseconds > 0 ? now.advanced(byMilliseconds: waitMilliseconds) : nil, completion: completion)
        guard wish.deadline != nil else {
            askBreaker(wish, now: now)
            return nil
        }
        waiting[wish.number] = wish
        if service.paused.isActive { lineUp(wish, now: now) } else { askBreaker(wish, now: now) }
        return wish.isOver ? nil : wish.number
    }

    /// Gives up a wish that has no answer yet; what it holds is given back, and what is still on its way when it arrives.
    func cancel(_ number: UInt64) {
        guard let wish = waiting[number] else { return }
        switch wish.stage {
        case .limits(let mark?): limits.cancel(mark, of: wish.service)
        case .place: _ = wish.service.bulkhead.leave(number)
        case .pause: _ = wish.service.paused.leave(number)
        case .trial, .limits(nil), .over: break
        }
        wish.stage = .over
        release(wish)
        forget(wish)
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

    func askBreaker(_ wish: PermitWish, now: Instant) {
        switch wish.service.breaker.admission(now: now) {
        case .refuse(let retryAfter): refusedByBreaker(wish, retryAfter: retryAfter, now: now)
        case .askForTrial: askForTrial(wish)
        case .allow:
            wish.generation = wish.service.breaker.snapshot.generation
            askLimits(wish, now: now)
        }
    }

    private func askForTrial(_ wish: PermitWish) {
        wish.stage = .trial
        let service = wish.service
        let lapse = runtime.time.now().advanced(byMilliseconds: service.definition.permitLifetime.wholeMilliseconds)
        breakers.askForTrial(service, id: PermitID(runtime.entropy.drawPair())) { [self] answer in
            let now = runtime.time.now()
            let generation = service.breaker.snapshot.generation
            guard !wish.isOver else {
                if case .allowed(let trial, let isOwn) = answer {
                    breakers.returnTrial(trial, service, generation: generation)
                    if isOwn { service.breaker.ownTrialWasNotMade() }
                }
                return
            }
            switch answer {
            case .allowed(let trial, let isOwn):
                wish.trial = trial
                wish.isOwnTrial = isOwn
                wish.trialUntil = lapse
                wish.generation = generation
                if wish.isTaken { _ = enter(wish, now: now) { wish.shares } } else { askLimits(wish, now: now) }
            case .refused(let retryAfter):
                refusedByBreaker(wish, retryAfter: retryAfter, now: now)
            case .failed(let error):
                fail(wish, InterlockError(error))
            }
        }
    }

    /// It waits when only the limit keeps the breaker open and that ends in time, else it is answered.
    private func refusedByBreaker(_ wish: PermitWish, retryAfter: Int64, now: Instant) {
        release(wish)
        if case .paused(let until) = wish.service.gate(now: now), let deadline = deadline(of: wish), until <= deadline,
            pause(wish, earliest: now, now: now)
        {
            return
        }
        refuse(wish, .open, retryAfter: retryAfter, now: now)
    }

    // MARK: The limits

    /// - Parameter lacksRoom: a limit has refused it just now, and it waits there, whatever the places.
    private func askLimits(_ wish: PermitWish, lacksRoom: Bool = false, now: Instant) {
        let service = wish.service
        guard service.definition.limits.contains(where: { !$0.isPerSubject || wish.subject != nil }) else {
            wish.isTaken = true
            _ = enter(wish, now: now) { [] }
            // The limit that opened it may be configured no longer.
            breakers.limitHasRoom(service)
            return
        }
        // Whoever finds no place is told so, or waits for one, before anything is taken for it.
        if !wish.hasPlace, !lacksRoom, isFull(service, now: now) { return lineUpForPlace(wish, now: now) }
        // Neither a trial nor a place is kept while its call waits for something else.
        let mayWait = !service.pausesAtLimit && !wish.isTrial && !wish.hasPlace
        let wait = mayWait ? deadline(of: wish)?.millisecondsRoundedUp(since: now) ?? 0 : 0
        wish.stage = .limits(nil)
        let mark = limits.ask(
            service, cost: wish.cost, subject: wish.subject, waitMilliseconds: wait, now: now, caller: .permit(wish))
        // It may have been decided, and gone on, before this returned.
        if case .limits(nil) = wish.stage { wish.stage = .limits(mark) }
    }

    /// `true`: what was taken from the limits has found its caller, or is kept for it.
    private func decided(_ wish: PermitWish, _ answer: LimitAnswer, shares: () -> [TakenShare]) -> Bool {
        guard !wish.isOver else { return !answer.isTaken }
        let now = runtime.time.now()
        guard let retryAfter = answer.retryAfter else {
            wish.isTaken = true
            return enter(wish, now: now, shares: shares)
        }
        let wasHurried = wish.isTrial || wish.hasPlace
        release(wish)
        if wasHurried, !wish.service.pausesAtLimit, let deadline = deadline(of: wish), retryAfter != LimitAnswer.neverSatisfiable,
            now.advanced(byMilliseconds: retryAfter) <= deadline
        {
            // Now it waits for the limit, and asks for the rest again after that.
            wish.generation = 0
            askLimits(wish, lacksRoom: true, now: now)
            return true
        }
        if retryAfter != LimitAnswer.neverSatisfiable, wish.service.pausesAtLimit,
            pause(wish, earliest: now.advanced(byMilliseconds: retryAfter), now: now)
        {
            return true
        }
        refuse(wish, .limited, retryAfter: retryAfter, now: now)
        return true
    }

    // MARK: The place

    /// The limits have granted it: it needs a place, and the breaker may have changed while it waited. `true`: what was taken
    /// has found its caller, or is kept for it.
    func enter(_ wish: PermitWish, now: Instant, shares: () -> [TakenShare]) -> Bool {
        let service = wish.service
        guard service.isConfigured else {
            fail(wish, .unconfigured(service.name))
            return false
        }
        if wish.trial != nil, wish.generation != service.breaker.snapshot.generation || wish.trialUntil <= now {
            // The half-open time that it is of is over, or the trial's own: while it waited others may have been given.
            giveTrialBack(wish)
        }
        if !wish.isTrial {
            switch service.breaker.admission(now: now) {
            case .refuse(let retryAfter):
                refusedByBreaker(wish, retryAfter: retryAfter, now: now)
                return false
            // Under the same generation it has been let through: Redis is away, and cannot count trials.
            case .askForTrial where wish.generation != service.breaker.snapshot.generation:
                wish.shares = shares()
                askForTrial(wish)
                return true
            case .allow, .askForTrial:
                wish.generation = service.breaker.snapshot.generation
            }
        }
        guard !wish.hasPlace else { return grant(wish, now: now) }
        guard !isFull(service, now: now) else {
            // What was taken is not kept through the wait: it would be called long after it was counted.
            wish.shares = shares()
            lineUpForPlace(wish, now: now)
            return true
        }
        wish.hasPlace = service.bulkhead.enter(wish.number, deadline: nil, now: now) == .taken
        return grant(wish, now: now)
    }

    /// No place is free: it waits for one, holding nothing, or is refused.
    private func lineUpForPlace(_ wish: PermitWish, now: Instant) {
        let service = wish.service
        release(wish)
        switch service.bulkhead.enter(
            wish.number, of: wish.subject, isBack: wish.hasWaited, deadline: deadline(of: wish), now: now)
        {
        case .taken:
            wish.hasPlace = true
            askBreaker(wish, now: now)
        case .waiting:
            wish.stage = .place
            wish.hasWaited = true
            planPlaces(of: service)
        case .full:
            refuseBusy(wish, now: now)
        }
    }

    private func grant(_ wish: PermitWish, now: Instant) -> Bool {
        let service = wish.service
        guard service.permits.count < Self.capacity else {
            release(wish)
            tellOfUnreported(service, now: now)
            refuse(wish, .busy, retryAfter: Breaker.forcedRetryMilliseconds, now: now)
            return false
        }
        let id = wish.trial ?? PermitID(runtime.entropy.drawPair())
        let lifetime = service.definition.permitLifetime.wholeMilliseconds
        if wish.trial == nil, service.breaker.callBegins(lifetimeMilliseconds: lifetime, now: now) { wish.isOwnTrial = true }
        let permit = PermitTable.Permit(
            service: service, generation: wish.generation, isTrial: wish.trial != nil, isOwnTrial: wish.isOwnTrial,
            subject: wish.subject, grantedAt: now, expiresAt: now.advanced(byMilliseconds: lifetime))
        service.permits.insert(permit, id: id)
        underWay += 1
        let isDelivered = wish.answer(.granted(id, state: service.breaker.actingState(now: now)))
        forget(wish, wasGranted: isDelivered)
        guard isDelivered else {
            if service.permits.remove(id) != nil { underWay -= 1 }
            release(wish)
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
        runtime.logger.warning(
            "A service's permits are used up: its callers do not report the outcomes of their calls",
            metadata: ["service": "\(service.name)", "permits": "\(service.permits.count)"])
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
    func deadline(of wish: PermitWish) -> Instant? { isGoingDown ? nil : wish.deadline }

    func refuse(_ wish: PermitWish, _ reason: PermitAnswer.Reason, retryAfter: Int64, now: Instant) {
        let service = wish.service
        service.metrics.refused(reason)
        wish.answer(.refused(reason, state: service.breaker.actingState(now: now), retryAfter: retryAfter))
        forget(wish)
    }

    func refuseBusy(_ wish: PermitWish, now: Instant) {
        refuse(wish, .busy, retryAfter: wish.service.bulkhead.retryMilliseconds, now: now)
    }

    func fail(_ wish: PermitWish, _ error: InterlockError) {
        guard !wish.isOver else { return }
        release(wish)
        wish.answer(.failed(error))
        forget(wish)
    }

    /// It waits for something else, and asks for a trial again after that.
    private func giveTrialBack(_ wish: PermitWish) {
        guard wish.isTrial else { return }
        breakers.returnTrial(wish.trial, wish.service, generation: wish.generation)
        if wish.isOwnTrial { wish.service.breaker.ownTrialWasNotMade() }
        wish.trial = nil
        wish.isOwnTrial = false
        wish.generation = 0
    }

    /// Gives back what it holds.
    func release(_ wish: PermitWish) {
        let service = wish.service
        giveTrialBack(wish)
        limits.giveBack(service, wish.shares)
        wish.shares = []
        wish.isTaken = false
        guard wish.hasPlace else { return }
        wish.hasPlace = false
        service.bulkhead.release(heldForMilliseconds: nil)
        settlePlaces(of: service)
    }

    private func forget(_ wish: PermitWish, wasGranted: Bool = false) {
        guard wish.deadline != nil else { return }
        waiting[wish.number] = nil
        let now = runtime.time.now()
        let patience = now.advanced(byMilliseconds: Self.closingMilliseconds)
        guard wish.service.paused.returned(wish.number, wasGranted: wasGranted, patience: patience) else { return }
        planResumption(of: wish.service, at: wasGranted ? patience : now)
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
