internal import CoreMetrics
internal import DequeModule
internal import InterlockCore
internal import Logging
internal import RedisClient

/// Keeps the local copy of each service's breaker up to date, and asks Redis to change its state.
extension ServiceExecutor {
    /// The maximum number of concurrent reads of breaker states. Without this limit, calls could queue behind the reads
    /// of a thousand services.
    private static let maximumReads = 25

    func status(of service: GuardedService) -> BreakerStatus {
        let now = runtime.time.now()
        return BreakerStatus(
            service: service.name, state: service.gate.breaker.actingState(now: now), fleet: service.gate.breaker.snapshot,
            ownCause: service.gate.breaker.localTrip(now: now)?.cause)
    }

    // MARK: Following the fleet

    /// Queues these services to have the states of their breakers read again, in the order of the calls to this method.
    func read(_ services: some Sequence<GuardedService>) {
        for service in services where !service.isReadPending {
            service.isReadPending = true
            pendingReads.append(service)
        }
        startReads()
    }

    private func startReads() {
        // A read that fails immediately calls this method again.
        guard !isStartingReads else { return }
        isStartingReads = true
        defer { isStartingReads = false }
        while readsInFlight < Self.maximumReads, let service = pendingReads.popFirst() {
            service.isReadPending = false
            guard service.gate.isConfigured else { continue }
            readsInFlight += 1
            synchronize(service) { [self] in
                readsInFlight -= 1
                startReads()
            }
        }
    }

    /// Reads a service's breaker, restores state that Redis has lost, and half-opens the breaker if that is overdue.
    private func synchronize(_ service: GuardedService, then done: @escaping () -> Void = {}) {
        let snapshot = service.gate.breaker.snapshot
        let digest = service.digest
        let operation = BreakerOperation.sync(
            knownSnapshot: snapshot.generation > 0 ? snapshot : nil, configurationDigest: digest,
            registersConfiguration: !service.isDeclared)
        run(operation, on: service) { [self] result in
            defer { done() }
            guard case .success = result else { return }
            if service.digest == digest { service.isDeclared = true }
            let now = runtime.time.now()
            guard service.gate.breaker.snapshot.state == .open, let until = service.gate.breaker.openUntil, until <= now else {
                return
            }
            halfOpen(service)
        }
    }

    /// Applies a published state of a breaker if it is newer than the known one.
    func eventReceived(_ snapshot: BreakerSnapshot, redisTimeMilliseconds: Int64, of service: GuardedService) {
        // A message may be late or a duplicate, so apply only a newer generation, or a later end of the known
        // generation.
        let knownSnapshot = service.gate.breaker.snapshot
        guard
            snapshot.generation > knownSnapshot.generation
                || (snapshot.generation == knownSnapshot.generation
                    && snapshot.untilMilliseconds > knownSnapshot.untilMilliseconds)
        else { return }
        apply(snapshot, redisTimeMilliseconds: redisTimeMilliseconds, to: service)
    }

    /// Adapts the breaker to the service's reloaded definition.
    func definitionChanged(_ service: GuardedService, limitsChanged: Bool) {
        let snapshot = service.gate.breaker.snapshot
        // The changed limits may have room, so a breaker that a limit opened is closed.
        let mustClose =
            service.gate.definition.breaker.isMetricsOnly || (limitsChanged && service.gate.breaker.isOpenByLimit)
        if mustClose, snapshot.forced == nil, snapshot.state != .closed {
            run(.close(.auto, expectedGeneration: snapshot.generation), on: service) { _ in }
        }
        read(CollectionOfOne(service))
    }

    func run(
        _ operation: BreakerOperation, on service: GuardedService, by: String? = nil,
        completion: @escaping (Result<BreakerReply, RedisError>) -> Void
    ) {
        let sentAt = runtime.time.now()
        let script = BreakerScript(
            keys: runtime.keys, service: service.name, settings: service.gate.definition.breaker, operation: operation,
            ends: service.gate.breaker.ends(now: sentAt), by: by ?? runtime.id, origin: runtime.id, database: runtime.database,
            random: .random(in: 0...1, using: &runtime.entropy))
        runtime.pipeline.send(script) { [self] result in
            if case .success(let reply) = result {
                apply(reply.snapshot, redisTimeMilliseconds: reply.redisTimeMilliseconds, sentAt: sentAt, to: service)
                restoreIfLost(service, reply)
            }
            completion(result)
        }
    }

    /// Restores the breaker's state in Redis if Redis lost it, or corrects its ends if the Redis clock jumped.
    private func restoreIfLost(_ service: GuardedService, _ reply: BreakerReply) {
        let isLost = reply.snapshot.generation < service.gate.breaker.snapshot.generation
        guard isLost || service.gate.breaker.hasCorrection, !service.isRestoring else { return }
        service.isRestoring = true
        run(
            .sync(
                knownSnapshot: service.gate.breaker.snapshot, configurationDigest: service.digest, registersConfiguration: false),
            on: service
        ) { _ in service.isRestoring = false }
    }

    private func apply(
        _ snapshot: BreakerSnapshot, redisTimeMilliseconds: Int64, sentAt: Instant? = nil, to service: GuardedService
    ) {
        // The service may have been removed while the command was in progress. Schedule nothing for it then.
        guard service.gate.isConfigured else { return }
        let previous = service.gate.breaker.snapshot
        let openUntil = service.gate.breaker.openUntil
        let forcedUntil = service.gate.breaker.forcedUntil
        let now = runtime.time.now()
        let isApplied = service.gate.breaker.apply(
            snapshot, redisTimeMilliseconds: redisTimeMilliseconds, sentAt: sentAt, receivedAt: now)
        guard isApplied else {
            if service.gate.breaker.openUntil != openUntil { scheduleHalfOpen(of: service) }
            if service.gate.breaker.forcedUntil != forcedUntil { scheduleForcedEnd(of: service) }
            return
        }
        service.metrics.record(state: service.gate.breaker.actingState(now: now), forced: service.gate.breaker.forced(now: now))
        if snapshot.state == .open, previous.state != .open { service.metrics.trips.increment() }
        scheduleHalfOpen(of: service)
        scheduleForcedEnd(of: service)
        defer { resume(service) }
        // The first read after a start brings a newer generation, which is not worth a log entry if the state is the
        // same.
        guard (previous.state, previous.forced) != (snapshot.state, snapshot.forced) else { return }
        runtime.logger.log(
            .breakerChanged,
            [
                "service": service.name, "from": previous.state.rawValue, "to": snapshot.state.rawValue,
                "cause": BreakerSnapshot.oneLine(snapshot.cause), "reason": BreakerSnapshot.oneLine(snapshot.reason),
                "by": BreakerSnapshot.oneLine(snapshot.changedBy), "generation": "\(snapshot.generation)",
            ])
    }

    /// Opens the breaker for this sidecar only.
    func tripLocally(_ service: GuardedService, _ cause: BreakerCause, forMilliseconds milliseconds: Int64) {
        guard service.gate.breaker.tripLocally(cause, forMilliseconds: milliseconds, now: runtime.time.now()) else { return }
        recordLocalTrip(service, cause)
    }

    func recordLocalTrip(_ service: GuardedService, _ cause: BreakerCause) {
        service.metrics.trips.increment()
        runtime.logger.log(.breakerOpenedLocally, ["service": service.name, "cause": cause.rawValue])
        resume(service)
    }

    // MARK: Scheduled changes

    /// Schedules the time to half-open an open breaker, even if no call arrives. Every sidecar schedules it, and the
    /// generation ensures that only one succeeds.
    private func scheduleHalfOpen(of service: GuardedService) {
        service.halfOpenTimer?.cancel()
        service.halfOpenTimer = nil
        guard service.gate.breaker.snapshot.forced == nil, let until = service.gate.breaker.openUntil else { return }
        service.halfOpenTimer = runtime.deadlines.schedule(at: until) { [unowned self, unowned service] in
            halfOpen(service)
        }
    }

    private func halfOpen(_ service: GuardedService, isRetry: Bool = false) {
        let until = service.gate.breaker.snapshot.untilMilliseconds
        run(.halfOpen(expectedGeneration: service.gate.breaker.snapshot.generation), on: service) { [self] result in
            guard case .success(let reply) = result, !reply.tookEffect, !isRetry else { return }
            // Another sidecar may have corrected the end of the open time after a clock jump, so that Redis rejected
            // the change. If the corrected end has passed by this sidecar's clock too, try once more.
            let now = runtime.time.now()
            guard service.gate.breaker.snapshot.state == .open, service.gate.breaker.snapshot.untilMilliseconds != until,
                let end = service.gate.breaker.openUntil, end <= now
            else { return }
            halfOpen(service, isRetry: true)
        }
    }

    /// Schedules a check at the end of a forced state. Every sidecar checks, and the first to do so ends the state.
    private func scheduleForcedEnd(of service: GuardedService) {
        service.forcedEnd?.cancel()
        service.forcedEnd = service.gate.breaker.forcedUntil.map { until in
            runtime.deadlines.schedule(at: until) { [unowned self, unowned service] in synchronize(service) }
        }
    }
}
