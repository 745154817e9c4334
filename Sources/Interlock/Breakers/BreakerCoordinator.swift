internal import CoreMetrics
internal import DequeModule
internal import Hiredis
public import InterlockCore
internal import Logging

/// Breakers: keeps each service's copy up to date, asks Redis for changes, and counts outcomes. Confined to the
/// coordinator's event loop.
final class BreakerCoordinator {
    /// How many services' states are read at a time: calls do not stand behind those of a thousand services.
    private static let mostReadings = 25
    /// For how many milliseconds a limit that is reached opens a breaker at most: a configuration may change meanwhile.
    static let longestLimitPause: Int64 = 3_600_000

    let runtime: CoordinatorRuntime
    /// Of how many sidecars a majority is reckoned.
    var sidecars: () -> Int = { 1 }
    /// A service's breaker has another state.
    var onChange: (GuardedService) -> Void = { _ in }
    /// Whose state is still to be read, in turn.
    private var unread: Deque<GuardedService> = []
    private var readingCount = 0
    private var isReadingOn = false

    init(runtime: CoordinatorRuntime, limits: RateLimitCoordinator) {
        self.runtime = runtime
        limits.onLimited = { [unowned self] in limitReached($0, retryAfter: $1) }
        limits.onTaken = { [unowned self] in limitHasRoom($0) }
    }

    func status(of service: GuardedService) -> BreakerStatus {
        let now = runtime.time.now()
        return BreakerStatus(
            service: service.name, state: service.breaker.actingState(now: now), fleet: service.breaker.snapshot,
            ownCause: service.breaker.ownTrip(now: now)?.cause)
    }

    // MARK: Following the fleet

    /// Reads these services' states again when it is their turn: in the order in which they were asked for, whoever asks for more
    /// meanwhile.
    func read(_ services: some Sequence<GuardedService>) {
        for service in services where !service.isToBeRead {
            service.isToBeRead = true
            unread.append(service)
        }
        readOn()
    }

    private func readOn() {
        // A reading that fails at once calls this again.
        guard !isReadingOn else { return }
        isReadingOn = true
        defer { isReadingOn = false }
        while readingCount < Self.mostReadings, let service = unread.popFirst() {
            service.isToBeRead = false
            guard service.isConfigured else { continue }
            readingCount += 1
            synchronise(service) { [self] in
                readingCount -= 1
                readOn()
            }
        }
    }

    /// Reads a service's state, restores what Redis has lost, and does what is due and nobody has done.
    private func synchronise(_ service: GuardedService, then: @escaping () -> Void = {}) {
        let snapshot = service.breaker.snapshot
        let digest = service.digest
        let operation = BreakerOperation.sync(
            known: snapshot.generation > 0 ? snapshot : nil, configuration: digest, declares: !service.isDeclared)
        run(operation, on: service) { [self] result in
            defer { then() }
            guard case .success = result else { return }
            if service.digest == digest { service.isDeclared = true }
            let now = runtime.time.now()
            guard service.breaker.snapshot.state == .open, let until = service.breaker.openUntil, until <= now else { return }
            halfOpen(service)
        }
    }

    /// A change that another sidecar made.
    func heard(_ snapshot: BreakerSnapshot, redisTime: Int64, of service: GuardedService) {
        // The message of a change has been overtaken when there is more to know of its generation, but for a later end.
        let known = service.breaker.snapshot
        guard
            snapshot.generation > known.generation
                || (snapshot.generation == known.generation && snapshot.untilMilliseconds > known.untilMilliseconds)
        else { return }
        apply(snapshot, redisTime: redisTime, to: service)
    }

    /// The service's definition was read again.
    func redefined(_ service: GuardedService, haveLimitsChanged: Bool) {
        let snapshot = service.breaker.snapshot
        // What the limit opened, the limit may have room for now: calls find out.
        let isOver = service.definition.breaker.isMetricsOnly || (haveLimitsChanged && service.breaker.isOpenByLimit)
        if isOver, snapshot.forced == nil, snapshot.state != .closed {
            run(.close(.auto, expect: snapshot.generation), on: service) { _ in }
        }
        read(CollectionOfOne(service))
    }

    func forget(_ service: GuardedService) {
        service.reopening?.cancel()
        service.forcedEnd?.cancel()
    }

    func run(
        _ operation: BreakerOperation, on service: GuardedService, by: String? = nil,
        completion: @escaping (Result<BreakerReply, RedisError>) -> Void
    ) {
        let sentAt = runtime.time.now()
        let script = BreakerScript(
            keys: runtime.keys, service: service.name, settings: service.definition.breaker, operation: operation,
            ends: service.breaker.ends(now: sentAt), by: by ?? runtime.id, origin: runtime.id, database: runtime.database,
            random: .random(in: 0...1, using: &runtime.entropy))
        runtime.pipeline.run(script) { [self] result in
            if case .success(let reply) = result {
                apply(reply.snapshot, redisTime: reply.redisTime, sentAt: sentAt, to: service)
                restoreIfLost(service, reply)
            }
            completion(result)
        }
    }

    /// Restores the breaker if Redis knows less than this sidecar: it was wiped, or its clock jumped after an end was
    /// written.
    private func restoreIfLost(_ service: GuardedService, _ reply: BreakerReply) {
        let isLost = reply.snapshot.generation < service.breaker.snapshot.generation
        guard isLost || service.breaker.knowsBetter, !service.isRestoring else { return }
        service.isRestoring = true
        run(
            .sync(known: service.breaker.snapshot, configuration: service.digest, declares: false), on: service
        ) { _ in service.isRestoring = false }
    }

    private func apply(_ snapshot: BreakerSnapshot, redisTime: Int64, sentAt: Instant? = nil, to service: GuardedService) {
        // An answer that was on its way when the service was taken out: nothing may be planned for it any more.
        guard service.isConfigured else { return }
        let before = service.breaker.snapshot
        let openUntil = service.breaker.openUntil
        let forcedUntil = service.breaker.forcedUntil
        let now = runtime.time.now()
        guard service.breaker.apply(snapshot, redisTime: redisTime, sentAt: sentAt, receivedAt: now) else {
            if service.breaker.openUntil != openUntil { planReopening(of: service) }
            if service.breaker.forcedUntil != forcedUntil { planForcedEnd(of: service) }
            return
        }
        service.metrics.record(state: service.breaker.actingState(now: now), forced: service.breaker.forced(now: now))
        if snapshot.state == .open, before.state != .open { service.metrics.trips.increment() }
        planReopening(of: service)
        planForcedEnd(of: service)
        defer { onChange(service) }
        // A newcomer reads what others have known for long.
        guard (before.state, before.forced) != (snapshot.state, snapshot.forced) else { return }
        runtime.logger.log(
            .breakerChanged,
            [
                "service": service.name, "from": before.state.rawValue, "to": snapshot.state.rawValue,
                "cause": BreakerSnapshot.oneLine(snapshot.cause), "reason": BreakerSnapshot.oneLine(snapshot.reason),
                "by": BreakerSnapshot.oneLine(snapshot.by), "generation": "\(snapshot.generation)",
            ])
    }

    /// Opens for this sidecar alone.
    func tripAlone(_ service: GuardedService, _ cause: BreakerCause, forMilliseconds milliseconds: Int64) {
        guard service.breaker.tripAlone(cause, forMilliseconds: milliseconds, now: runtime.time.now()) else { return }
        trippedAlone(service, cause)
    }

    func trippedAlone(_ service: GuardedService, _ cause: BreakerCause) {
        service.metrics.trips.increment()
        runtime.logger.log(.breakerAlone, ["service": service.name, "cause": cause.rawValue])
        onChange(service)
    }

    // MARK: What is due

    /// Half-opens an open breaker when its time is over, whether anybody calls or not. Every sidecar plans it; under the
    /// generation one of them does it.
    private func planReopening(of service: GuardedService) {
        service.reopening?.cancel()
        service.reopening = nil
        guard service.breaker.snapshot.forced == nil, let until = service.breaker.openUntil else { return }
        service.reopening = runtime.deadlines.schedule(at: until) { [unowned self, unowned service] in
            halfOpen(service)
        }
    }

    private func halfOpen(_ service: GuardedService, isAgain: Bool = false) {
        let until = service.breaker.snapshot.untilMilliseconds
        run(.halfOpen(expect: service.breaker.snapshot.generation), on: service) { [self] result in
            guard case .success(let reply) = result, !reply.isDone, !isAgain else { return }
            // Another sidecar corrected the end after a jump of Redis' clock, but here the state is over.
            let now = runtime.time.now()
            guard service.breaker.snapshot.state == .open, service.breaker.snapshot.untilMilliseconds != until,
                let end = service.breaker.openUntil, end <= now
            else { return }
            halfOpen(service, isAgain: true)
        }
    }

    /// The end of a forced state is whoever's who looks first: every sidecar looks.
    private func planForcedEnd(of service: GuardedService) {
        service.forcedEnd?.cancel()
        service.forcedEnd = service.breaker.forcedUntil.map { until in
            runtime.deadlines.schedule(at: until) { [unowned self, unowned service] in synchronise(service) }
        }
    }
}

/// What a breaker is doing, as this sidecar sees it.
public struct BreakerStatus: Hashable, Sendable {
    /// The service's name.
    public var service: String
    /// As this sidecar acts.
    public var state: BreakerSnapshot.State
    /// The fleet's.
    public var fleet: BreakerSnapshot
    /// Why this sidecar is open for itself alone; `nil`: it is not.
    package var ownCause: BreakerCause?
}
