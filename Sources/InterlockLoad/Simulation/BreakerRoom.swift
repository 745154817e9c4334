internal import Interlock
internal import InterlockCore

/// The breakers of a simulated sidecar: keeps each service's copy up to date, asks Redis for changes, and counts outcomes, as
/// `BreakerCoordinator` does.
final class BreakerRoom: SidecarRoom {
    /// One service's breaker in this sidecar.
    final class Desk {
        let service: SimulatedService
        var breaker: Breaker
        fileprivate var reopening: SimulatedWorld.EventID?
        /// A trip by the limit or for a pause is under way, or its end.
        var isTripUnderWay = false
        /// How many trial permits Redis is being asked for.
        var trialsAskedFor = 0
        fileprivate var isRestoring = false
        fileprivate var isDeclared = false
        /// Until when the upstream asked to be left alone.
        var upstreamRetryAt: Instant?

        fileprivate init(_ service: SimulatedService) {
            self.service = service
            breaker = Breaker(settings: service.definition.breaker)
        }

        var settings: BreakerSettings { breaker.settings }
    }

    unowned let sidecar: SimulatedSidecar
    let desks: [Desk]
    private let news: BreakerNews
    /// Of how many sidecars a majority is reckoned.
    let sidecars: () -> Int

    init(
        sidecar: SimulatedSidecar, services: [SimulatedService], news: BreakerNews, sidecars: @escaping () -> Int
    ) {
        self.sidecar = sidecar
        self.news = news
        self.sidecars = sidecars
        desks = services.map(Desk.init)
    }

    var world: SimulatedWorld { sidecar.world }
    var now: Instant { sidecar.now }

    // MARK: Following the fleet

    func reread() {
        for desk in desks { synchronise(desk) }
        for desk in desks { sendSums(of: desk) {} }
    }

    /// Reads a service's state again, restores what Redis has lost, and does what is due and nobody has done.
    private func synchronise(_ desk: Desk) {
        let snapshot = desk.breaker.snapshot
        let operation = BreakerOperation.sync(
            known: snapshot.generation > 0 ? snapshot : nil, configuration: desk.service.digest, declares: !desk.isDeclared)
        run(operation, at: desk) { [self] result in
            guard case .success = result else { return }
            desk.isDeclared = true
            guard desk.breaker.snapshot.state == .open, let until = desk.breaker.openUntil, until <= now else { return }
            halfOpen(desk)
        }
    }

    func received(_ message: ModelRedis.Message) {
        guard message.channel == sidecar.keys.events, let (index, snapshot, redisTime) = news.read(message.text) else { return }
        let desk = desks[index]
        // The message of a change has been overtaken when there is more to know of its generation.
        if snapshot.generation > desk.breaker.snapshot.generation {
            apply(snapshot, redisTime: redisTime, to: desk)
        } else if snapshot.generation == desk.breaker.snapshot.generation {
            // Who watches the sidecar's events hears of it all the same; the sidecar acts as before.
            news.seen(by: sidecar, desk.service, snapshot, until: desk.breaker.openUntil)
        }
    }

    func run(
        _ operation: BreakerOperation, at desk: Desk,
        completion: @escaping (Result<BreakerReply, LostAnswer>) -> Void
    ) {
        let call = ModelRedis.BreakerCall(
            service: desk.service.definition.name, settings: desk.settings, operation: operation, by: sidecar.id,
            origin: sidecar.id, random: world.random.unit())
        let keys = sidecar.keys
        sidecar.redis.send({ $0.breaker(call, keys: keys) }) { [self] result in
            if case .success(let reply) = result {
                apply(reply.snapshot, redisTime: reply.redisTime, to: desk)
                restoreIfLost(desk, reply)
            }
            completion(result)
        }
    }

    /// Redis knows less than this sidecar: it was wiped.
    private func restoreIfLost(_ desk: Desk, _ reply: BreakerReply) {
        guard reply.snapshot.generation < desk.breaker.snapshot.generation, !desk.isRestoring else { return }
        desk.isRestoring = true
        let operation = BreakerOperation.sync(
            known: desk.breaker.snapshot, configuration: desk.service.digest, declares: false)
        run(operation, at: desk) { _ in desk.isRestoring = false }
    }

    private func apply(_ snapshot: BreakerSnapshot, redisTime: Int64, to desk: Desk) {
        let openUntil = desk.breaker.openUntil
        guard desk.breaker.apply(snapshot, redisTime: redisTime, receivedAt: now) else {
            if desk.breaker.openUntil != openUntil { planReopening(of: desk) }
            return
        }
        tell(snapshot, redisTime: redisTime, of: desk)
        planReopening(of: desk)
    }

    /// What it acts on from now on.
    private func tell(_ snapshot: BreakerSnapshot, redisTime: Int64, of desk: Desk) {
        var until: Instant?
        if snapshot.state == .open, snapshot.untilMilliseconds > 0 {
            // It counts the open time by its own clock, from when it hears of it.
            let left = snapshot.untilMilliseconds - redisTime
            let began = sidecar.server.instant(ofMilliseconds: redisTime)
            until = began?.advanced(byMilliseconds: left) ?? desk.breaker.openUntil
        }
        news.seen(by: sidecar, desk.service, snapshot, until: until)
    }

    /// Half-opens an open breaker when its time is over, whether anybody calls or not. Every sidecar plans it; under the
    /// generation one of them does it.
    private func planReopening(of desk: Desk) {
        if let reopening = desk.reopening { world.cancel(reopening) }
        desk.reopening = nil
        guard desk.breaker.snapshot.forced == nil, let until = desk.breaker.openUntil else { return }
        desk.reopening = sidecar.timer(at: until) { [unowned self] in
            desk.reopening = nil
            halfOpen(desk)
        }
    }

    private func halfOpen(_ desk: Desk) {
        run(.halfOpen(expect: desk.breaker.snapshot.generation), at: desk) { _ in }
    }

    // MARK: The limit

    /// A call met a limit of this service.
    func limitReached(_ service: SimulatedService) {
        let desk = desks[service.index]
        let definition = service.definition
        guard definition.onLimit.action == .trip, !desk.settings.isMetricsOnly, !desk.isTripUnderWay else { return }
        let snapshot = desk.breaker.snapshot
        // Of what another cause has opened, its trials have the last word: the limit's own way back asks for none.
        guard snapshot.forced == nil,
            snapshot.state == .closed || (snapshot.state == .halfOpen && desk.breaker.isOpenByLimit)
        else { return }
        desk.isTripUnderWay = true
        let pause = definition.onLimit.pause
        run(.trip(.limit, expect: snapshot.generation, openFor: pause, pause: nil), at: desk) { [self] result in
            desk.isTripUnderWay = false
            guard case .failure = result else { return }
            let milliseconds = world.draw(pause.lowerBound.wholeMilliseconds...pause.upperBound.wholeMilliseconds)
            desk.breaker.tripAlone(.limit, forMilliseconds: milliseconds, now: now)
        }
    }

    /// The limit grants again: a breaker that only the limit opened has nothing more to wait for.
    func limitHasRoom(_ service: SimulatedService) {
        let desk = desks[service.index]
        guard desk.breaker.isOpenByLimit, !desk.isTripUnderWay, desk.breaker.actingState(now: now) == .halfOpen else { return }
        desk.isTripUnderWay = true
        run(.close(.limit, expect: desk.breaker.snapshot.generation), at: desk) { _ in desk.isTripUnderWay = false }
    }
}
