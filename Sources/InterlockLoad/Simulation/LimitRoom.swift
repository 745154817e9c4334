internal import Interlock
internal import InterlockCore

/// The limits of a simulated sidecar: sends what the limiters batch, and hands out what they decide, as `RateLimitCoordinator`
/// does.
final class LimitRoom: SidecarRoom {
    enum Answer {
        case decided(LimitAnswer)
        case failed(code: String)
    }

    /// Whom a decision is for: says whether what was taken has found it. The last argument tells what that is.
    typealias Caller = (_ answer: Answer, _ shares: () -> [TakenShare]) -> Bool

    /// One service's limits in this sidecar.
    private final class Desk {
        let service: SimulatedService
        var limiter: ServiceLimiter
        /// Counts while Redis is away, and is kept until what was granted then counts no more.
        var localCounters: LocalCounters?
        var callers: [Int: Caller] = [:]
        var lastID = 0
        var isFlushPlanned = false
        var wakeUp: SimulatedWorld.EventID?

        init(_ service: SimulatedService) {
            self.service = service
            limiter = ServiceLimiter(
                definitions: service.definition.limits, maximumWaiting: service.definition.onLimit.maximumWaiting)
        }
    }

    static let unavailable = "UNAVAILABLE"
    static let invalid = "INVALID"
    /// So long at most until the end of a tick, in which calls gather.
    private static let longestTick = 30 * SimulatedWorld.microsecond

    unowned let sidecar: SimulatedSidecar
    private let desks: [Desk]
    /// How many sidecars may be at the same limits.
    private let sidecars: () -> Int
    /// A call met a limit of this service.
    var onLimited: (SimulatedService) -> Void = { _ in }
    /// All calls of a batch were granted by this service's limits.
    var onTaken: (SimulatedService) -> Void = { _ in }

    init(sidecar: SimulatedSidecar, services: [SimulatedService], sidecars: @escaping () -> Int) {
        self.sidecar = sidecar
        self.sidecars = sidecars
        desks = services.map(Desk.init)
    }

    private var world: SimulatedWorld { sidecar.world }
    private var now: Instant { sidecar.now }

    // MARK: Calls

    /// Asks the limits of a service. Returns an ID by which a wait can be given up.
    func ask(_ service: SimulatedService, cost: Int64, subject: String?, wait: Int64, caller: @escaping Caller) -> Int {
        let desk = desks[service.index]
        desk.lastID += 1
        let id = desk.lastID
        desk.callers[id] = caller
        let request = LimitRequest(
            id: id, cost: cost, subject: subject, deadline: wait > 0 ? now.advanced(byMilliseconds: wait) : nil)
        switch desk.limiter.admit(request, now: now) {
        case .queued:
            planFlush(of: desk)
        case .waiting:
            onLimited(service)
            planWakeUp(of: desk)
        case .answered(let answer):
            if answer.retryAfter != LimitAnswer.neverSatisfiable { onLimited(service) }
            _ = deliver(.init(id: id, answer: answer, place: nil), at: desk)
        case .unlimited:
            fail(id, code: Self.invalid, at: desk)
        }
        return id
    }

    /// Gives up a wait. What is already on its way is given back when it arrives and finds nobody.
    func cancel(_ id: Int, of service: SimulatedService) {
        let desk = desks[service.index]
        guard desk.limiter.remove(id) else { return }
        desk.callers[id] = nil
        planWakeUp(of: desk)
    }

    func redisIsUp() {
        for desk in desks {
            planFlush(of: desk)
            planWakeUp(of: desk)
        }
    }

    // MARK: Batches

    /// All calls of one tick travel together.
    private func planFlush(of desk: Desk) {
        guard !desk.isFlushPlanned, !desk.limiter.hasBatchInFlight else { return }
        desk.isFlushPlanned = true
        world.schedule(after: world.draw(0...Self.longestTick), on: sidecar.node) { [unowned self] in
            desk.isFlushPlanned = false
            flush(desk)
        }
    }

    private func flush(_ desk: Desk) {
        let sentAt = now
        guard let batch = desk.limiter.nextBatch(now: sentAt, sidecars: sidecars()) else { return planWakeUp(of: desk) }
        guard sidecar.redis.isUp else {
            decideAlone(batch, at: desk)
            return desk.limiter.hasArrivals ? planFlush(of: desk) : planWakeUp(of: desk)
        }
        let (name, keys) = (desk.service.definition.name, sidecar.keys)
        sidecar.redis.send({ $0.take(batch, of: name, keys: keys) }) { [self] result in
            switch result {
            case .success(let verdict):
                if let counters = desk.localCounters, counters.mayBeForgotten(at: now) { desk.localCounters = nil }
                settle(batch, verdict, sentAt: sentAt, at: desk)
            case .failure:
                decideAlone(batch, at: desk)
            }
            // At the end of the tick: whoever is read in it travels along.
            planFlush(of: desk)
        }
    }

    private func settle(
        _ batch: LimitBatch, _ verdict: LimitVerdict, sentAt: Instant, holdsUntil: Instant = .distantFuture, at desk: Desk
    ) {
        var settled: [ServiceLimiter.Settlement] = []
        desk.limiter.settle(
            verdict, sentAt: sentAt, now: now, sidecars: sidecars(), holdsUntil: holdsUntil, into: &settled)
        _ = desk.limiter.removeNotices()
        let isLimited = zip(batch.runs, verdict.runs).contains { run, decided in decided.granted < run.count }
        if isLimited { onLimited(desk.service) } else { onTaken(desk.service) }
        for settlement in settled {
            func shares() -> [TakenShare] {
                guard let place = settlement.place else { return [] }
                return batch.shares(
                    ofRequestAt: place, calls: 1, by: verdict, service: desk.service.definition.name, keys: sidecar.keys)
            }
            let isDelivered = deliver(settlement, at: desk, shares: shares)
            if settlement.answer.isTaken, !isDelivered { giveBack(shares(), to: desk.service) }
        }
        planWakeUp(of: desk)
    }

    private func deliver(
        _ settlement: ServiceLimiter.Settlement, at desk: Desk, shares: () -> [TakenShare] = { [] }
    ) -> Bool {
        desk.callers.removeValue(forKey: settlement.id)?(.decided(settlement.answer), shares) ?? false
    }

    private func fail(_ id: Int, code: String, at desk: Desk) {
        _ = desk.callers.removeValue(forKey: id)?(.failed(code: code)) { [] }
    }

    // MARK: Redis is away

    private func decideAlone(_ batch: LimitBatch, at desk: Desk) {
        switch desk.service.definition.whenRedisIsDown {
        case .deny:
            for request in desk.limiter.abandonBatch() { fail(request.id, code: Self.unavailable, at: desk) }
        case .allow:
            settle(batch, .allGranted(batch), sentAt: now, at: desk)
        case .local:
            var counters = desk.localCounters ?? LocalCounters(sidecars: sidecars())
            let verdict = counters.judge(batch, now: now)
            desk.localCounters = counters
            let holdsUntil = now.advanced(byMilliseconds: LocalCounters.refusalMilliseconds)
            settle(batch, verdict, sentAt: now, holdsUntil: holdsUntil, at: desk)
        }
    }

    // MARK: Waiting

    private func planWakeUp(of desk: Desk) {
        if let wakeUp = desk.wakeUp { world.cancel(wakeUp) }
        desk.wakeUp = nil
        guard let next = desk.limiter.nextWakeUp(now: now) else { return }
        desk.wakeUp = sidecar.timer(at: next) { [unowned self] in
            desk.wakeUp = nil
            var expired: [ServiceLimiter.Settlement] = []
            desk.limiter.expire(now: now, into: &expired)
            for settlement in expired { _ = deliver(settlement, at: desk) }
            // The flush plans the next wake-up; so does the verdict on a batch that is under way.
            planFlush(of: desk)
        }
    }

    // MARK: Giving back

    /// Returns what was taken and not used, where its window still stands.
    func giveBack(_ shares: [TakenShare], to service: SimulatedService) {
        guard !shares.isEmpty else { return }
        let desk = desks[service.index]
        sidecar.redis.send({ $0.giveBack(shares) }) { [self] result in
            guard case .success = result else { return }
            for share in shares { desk.limiter.gaveBack(definition: share.definition, subject: share.subject) }
            planFlush(of: desk)
        }
    }
}
