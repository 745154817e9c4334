internal import CoreMetrics
internal import Hiredis
internal import InterlockCore

/// Permits: asks a service's breaker and limits in one step, and takes the outcome of each call. Confined to the
/// coordinator's event loop.
final class PermitCoordinator {
    private let runtime: CoordinatorRuntime
    private let limits: RateLimitCoordinator
    private let breakers: BreakerCoordinator
    private var permits = PermitTable()

    init(runtime: CoordinatorRuntime, limits: RateLimitCoordinator, breakers: BreakerCoordinator) {
        self.runtime = runtime
        self.limits = limits
        self.breakers = breakers
        limits.onPermitDecided = { [unowned self] in decided($0, $1, $2) }
        limits.onPermitFailed = { service, wish, error in
            breakers.returnTrial(wish.trial, service, generation: wish.generation)
            wish.completion(.failed(error))
        }
    }

    var underWay: Int { permits.count }

    /// Asks breaker and limits in one step. Returns an ID by which a wait for the limit can be given up.
    func acquire(
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
            let id = PermitID(runtime.entropy.drawPair())
            breakers.askForTrial(service, id: id) { [self] answer in
                let now = runtime.time.now()
                switch answer {
                case .allowed(let trial):
                    let wish = GuardedService.PermitWish(
                        completion: completion, trial: trial, generation: service.breaker.snapshot.generation)
                    _ = askLimits(
                        service, wish, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: now)
                case .refused(let retryAfter):
                    refuse(service, completion, .open, retryAfter: retryAfter, now: now)
                case .failed(let error):
                    completion(.failed(InterlockError(error)))
                }
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
            breakers.returnTrial(wish.trial, service, generation: wish.generation)
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
            breakers.returnTrial(wish.trial, service, generation: wish.generation)
            refuse(service, wish.completion, .busy, retryAfter: Breaker.forcedRetryMilliseconds, now: now)
            return false
        }
        guard wish.completion(.granted(id, state: service.breaker.actingState(now: now))) else {
            _ = permits.remove(id, now: now)
            breakers.returnTrial(wish.trial, service, generation: wish.generation)
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
        breakers.record(report, of: permit, id: id, now: now, completion: completion)
    }

    func removeAll(of service: GuardedService) {
        permits.removeAll(of: service)
    }
}
