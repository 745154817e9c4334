internal import Interlock
internal import InterlockCore

/// The permits of a simulated sidecar: asks a service's breaker and its limits, in this order and in one step, and takes the
/// outcome of each call, as `PermitCoordinator` does for services without a bound on their concurrency.
final class PermitRoom: SidecarRoom {
    struct Permit {
        let desk: BreakerRoom.Desk
        /// Of the breaker when the permit was given.
        var generation: Int64
        /// It is one of the fleet's trial permits.
        var isTrial: Bool
        var expiresAt: Instant
    }

    enum Answer {
        case granted(id: String, state: BreakerSnapshot.State)
        /// `retryAfter` is in milliseconds.
        case open(retryAfter: Int64)
        case limited(retryAfter: Int64)
        case failed(code: String)
    }

    enum ReportAnswer {
        case state(BreakerSnapshot.State)
        case failed(code: String)
    }

    /// A permit on its way.
    private final class Wish {
        let desk: BreakerRoom.Desk
        let deadline: Instant?
        let answer: (Answer) -> Bool
        var isOver = false
        /// Its mark at the limits, while it is with them.
        var mark: Int?
        /// Of the breaker that agreed.
        var generation: Int64
        var trial: String?
        /// Until when the fleet keeps that for it.
        var trialUntil = Instant.distantFuture
        /// What it has taken from the limits and keeps while it asks for something else.
        var shares: [TakenShare] = []
        var isTaken = false

        init(_ desk: BreakerRoom.Desk, deadline: Instant?, answer: @escaping (Answer) -> Bool) {
            self.desk = desk
            self.deadline = deadline
            self.answer = answer
            generation = desk.breaker.snapshot.generation
        }
    }

    unowned let sidecar: SimulatedSidecar
    let breakers: BreakerRoom
    private let limits: LimitRoom
    private var permits: [String: Permit] = [:]

    /// - Parameter isWell: what a probe of a service would find now.
    init(
        sidecar: SimulatedSidecar, services: [SimulatedService], news: BreakerNews, sidecars: @escaping () -> Int,
        isWell: @escaping (SimulatedService) -> Bool
    ) {
        self.sidecar = sidecar
        breakers = BreakerRoom(sidecar: sidecar, services: services, news: news, sidecars: sidecars)
        limits = LimitRoom(sidecar: sidecar, services: services, sidecars: sidecars)
        limits.onLimited = { [unowned self] in breakers.limitReached($0) }
        limits.onTaken = { [unowned self] in breakers.limitHasRoom($0) }
        breakers.startProbes(isWell)
    }

    private var world: SimulatedWorld { sidecar.world }
    private var now: Instant { sidecar.now }

    func redisIsUp() {
        limits.redisIsUp()
    }

    func reread() {
        permits = permits.filter { $0.value.expiresAt > now }
        breakers.reread()
    }

    func received(_ message: ModelRedis.Message) {
        breakers.received(message)
    }

    // MARK: Calls

    /// Asks for a permit. Returns how the wish is given up.
    func acquire(_ service: SimulatedService, wait: Int64, answer: @escaping (Answer) -> Bool) -> () -> Void {
        let deadline = wait > 0 ? now.advanced(byMilliseconds: wait) : nil
        let wish = Wish(breakers.desks[service.index], deadline: deadline, answer: answer)
        askBreaker(wish)
        return { [unowned self] in cancel(wish) }
    }

    private func cancel(_ wish: Wish) {
        guard !wish.isOver else { return }
        if let mark = wish.mark { limits.cancel(mark, of: wish.desk.service) }
        wish.isOver = true
        release(wish)
    }

    /// Takes the outcome of a call.
    func report(permit id: String, _ report: OutcomeReport, answer: @escaping (ReportAnswer) -> Bool) {
        guard let permit = permits.removeValue(forKey: id), permit.expiresAt > now else {
            _ = answer(.failed(code: LimitRoom.invalid))
            return
        }
        breakers.record(report, of: permit, id: id) { [self] in
            _ = answer(.state(permit.desk.breaker.actingState(now: now)))
        }
    }

    // MARK: On its way

    private func askBreaker(_ wish: Wish) {
        switch wish.desk.breaker.admission(now: now) {
        case .refuse(let retryAfter):
            release(wish)
            end(wish, .open(retryAfter: retryAfter))
        case .askForTrial:
            askForTrial(wish)
        case .allow:
            wish.generation = wish.desk.breaker.snapshot.generation
            askLimits(wish)
        }
    }

    private func drawID() -> String {
        let (high, low) = world.drawPair()
        return OwnerToken.hexadecimal(high) + OwnerToken.hexadecimal(low)
    }

    private func askForTrial(_ wish: Wish) {
        let desk = wish.desk
        let lapse = now.advanced(byMilliseconds: desk.service.definition.permitLifetime.wholeMilliseconds)
        breakers.askForTrial(desk, id: drawID()) { [self] answer in
            let generation = desk.breaker.snapshot.generation
            guard !wish.isOver else {
                if case .allowed(let trial) = answer { breakers.returnTrial(trial, desk, generation: generation) }
                return
            }
            switch answer {
            case .allowed(let trial):
                wish.trial = trial
                wish.trialUntil = lapse
                wish.generation = generation
                if wish.isTaken { _ = enter(wish) { wish.shares } } else { askLimits(wish) }
            case .refused(let retryAfter):
                release(wish)
                end(wish, .open(retryAfter: retryAfter))
            case .failed:
                release(wish)
                end(wish, .failed(code: LimitRoom.unavailable))
            }
        }
    }

    private func askLimits(_ wish: Wish) {
        let service = wish.desk.service
        guard service.definition.limits.contains(where: { !$0.isPerSubject }) else {
            wish.isTaken = true
            _ = enter(wish) { [] }
            return breakers.limitHasRoom(service)
        }
        let wait = wish.deadline.map { max(0, $0.millisecondsRoundedUp(since: now)) } ?? 0
        let mark = limits.ask(service, cost: 1, subject: nil, wait: wait) { [self] answer, shares in
            wish.mark = nil
            return decided(wish, answer, shares: shares)
        }
        if !wish.isOver, !wish.isTaken { wish.mark = mark }
    }

    /// `true`: what was taken from the limits has found its caller, or is kept for it.
    private func decided(_ wish: Wish, _ answer: LimitRoom.Answer, shares: () -> [TakenShare]) -> Bool {
        switch answer {
        case .failed(let code):
            guard !wish.isOver else { return false }
            release(wish)
            end(wish, .failed(code: code))
            return true
        case .decided(let answer):
            guard !wish.isOver else { return !answer.isTaken }
            guard let retryAfter = answer.retryAfter else {
                wish.isTaken = true
                return enter(wish, shares: shares)
            }
            release(wish)
            end(wish, .limited(retryAfter: retryAfter))
            return true
        }
    }

    /// The limits have granted it, and the breaker may have changed while it waited. `true`: what was taken has found its
    /// caller, or is kept for it.
    private func enter(_ wish: Wish, shares: () -> [TakenShare]) -> Bool {
        let breaker = wish.desk.breaker
        if wish.trial != nil, wish.generation != breaker.snapshot.generation || wish.trialUntil <= now {
            // The half-open time that it is of is over, or the trial's own: while it waited others may have been given.
            breakers.returnTrial(wish.trial, wish.desk, generation: wish.generation)
            wish.trial = nil
            wish.generation = 0
        }
        if wish.trial == nil {
            switch breaker.admission(now: now) {
            case .refuse(let retryAfter):
                release(wish)
                end(wish, .open(retryAfter: retryAfter))
                return false
            // Under the same generation it has been let through: Redis is away, and cannot count trials.
            case .askForTrial where wish.generation != breaker.snapshot.generation:
                wish.shares = shares()
                askForTrial(wish)
                return true
            case .allow, .askForTrial:
                wish.generation = breaker.snapshot.generation
            }
        }
        let id = wish.trial ?? drawID()
        permits[id] = Permit(
            desk: wish.desk, generation: wish.generation, isTrial: wish.trial != nil,
            expiresAt: now.advanced(byMilliseconds: wish.desk.service.definition.permitLifetime.wholeMilliseconds))
        guard end(wish, .granted(id: id, state: breaker.actingState(now: now))) else {
            permits[id] = nil
            release(wish)
            return false
        }
        return true
    }

    /// `false`: its caller has left.
    @discardableResult
    private func end(_ wish: Wish, _ answer: Answer) -> Bool {
        wish.isOver = true
        return wish.answer(answer)
    }

    /// Gives back what it holds.
    private func release(_ wish: Wish) {
        breakers.returnTrial(wish.trial, wish.desk, generation: wish.generation)
        wish.trial = nil
        limits.giveBack(wish.shares, to: wish.desk.service)
        wish.shares = []
        wish.isTaken = false
    }
}
