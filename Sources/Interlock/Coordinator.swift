internal import CoreMetrics
public import InterlockCore
public import Logging
package import NIOCore
internal import NIOPosix
internal import RedisClient
public import ServiceLifecycle

/// The core of a sidecar, which Swift programs can also embed: locks, limits and breakers over one shared Redis.
///
/// The coordinator, its decisions and its Redis connections live on one NIO event loop. An API on the same loop enters
/// with `assumeIsolated` and calls the completion-based methods, without a thread change or a task per call. All other
/// code calls the `async` methods.
public actor Coordinator: Service {
    /// The event loop to which the coordinator is confined.
    package nonisolated let eventLoop: any EventLoop
    /// An executor on the coordinator's event loop. Tasks that prefer it call the coordinator without a thread change,
    /// which is most of the cost of an uncontended lock for a single caller. They must not block.
    public nonisolated let taskExecutor: any TaskExecutor
    /// The clock that measures latencies.
    nonisolated let clock: TimeSource
    /// The coordinator's ID in the fleet.
    public nonisolated let id: String
    /// The address of Redis, without credentials.
    package nonisolated var redisName: String { configuration.redis.displayName }
    /// The fleet's keys and channels.
    package nonisolated let keys: KeySpace

    let configuration: InterlockConfiguration
    let calls: CoordinatorCalls
    private let subscriptions: EventSubscriptions
    private let subscriber: any RedisListener
    private let watch: KeyWatch
    /// The connection on which locks are granted; a separate one if grants wait for replicas.
    private let lockPipeline: any RedisSender
    private let components: Components
    private var isStarted = false
    private var isStopped = false
    private var redisOutageTimer: Deadlines.Entry?
    private var hasLostRedis = false
    private var readTimer: Deadlines.Entry?
    private var readinessWaiters: [Int: CheckedContinuation<Void, Never>] = [:]
    private var lastReadinessWaiter = 0

    /// Runs the actor on `eventLoop`.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        eventLoop.executor.asUnownedSerialExecutor()
    }

    /// The interval, in milliseconds, at which all state that other sidecars may change is read again in case a message
    /// was lost.
    package static let rereadMilliseconds: Int64 = 5000
    /// The time, in milliseconds, over which the sidecars of a fleet spread their reads after an outage.
    package static let recoverySpreadMilliseconds: Int64 = 500

    /// Creates a coordinator on a thread of NIO's global event loop group. It is inactive until `run` or `start`.
    public init(_ configuration: InterlockConfiguration, logger: Logger = Logger(label: "interlock")) {
        self.init(
            configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger)
    }

    /// Creates a coordinator on `eventLoop`, with the system's clock and network. It is inactive until `run` or
    /// `start`.
    package init(
        configuration: InterlockConfiguration,
        eventLoop: any EventLoop,
        time: TimeSource = .system,
        logger: Logger = Logger(label: "interlock")
    ) {
        self.init(
            configuration: configuration,
            environment: CoordinatorEnvironment(eventLoop: eventLoop, clock: time, logger: logger))
    }

    /// Creates a coordinator in `environment`. It is inactive until `run` or `start`.
    package init(configuration: InterlockConfiguration, environment: CoordinatorEnvironment) {
        eventLoop = environment.eventLoop
        taskExecutor = EventLoopTaskExecutor(eventLoop: environment.eventLoop)
        self.configuration = configuration
        let runtime = CoordinatorRuntime(configuration: configuration, environment: environment)
        clock = environment.clock
        id = runtime.id
        keys = runtime.keys
        watch = KeyWatch(pipeline: runtime.topology.makeSender(), logger: environment.logger)
        lockPipeline =
            configuration.locks.waitReplicas > 0 ? runtime.topology.makeSender(reportsServers: false) : runtime.pipeline
        calls = CoordinatorCalls(
            runtime: runtime, configuration: configuration, lockPipeline: lockPipeline, watch: watch)
        subscriptions = calls.feed.subscriptions
        subscriber = runtime.topology.listener(channels: [runtime.keys.events, runtime.keys.wake(runtime.id)])
        components = Components(calls: calls, lockPipeline: lockPipeline, watch: watch, subscriber: subscriber)
    }

    deinit {
        subscriptions.finish()
        guard isStarted, !isStopped else { return }
        // The coordinator was dropped without `stop`. Pending timers and replies still refer to its components, so the
        // closure keeps them alive on the event loop until the connections are closed.
        eventLoop.execute { [components] in components.close() }
    }

    /// The components of a coordinator that must outlive it until they are closed.
    private struct Components: @unchecked Sendable {
        // Safe because it is used only on the coordinator's event loop.
        let calls: CoordinatorCalls
        let lockPipeline: any RedisSender
        let watch: KeyWatch
        let subscriber: any RedisListener

        func close() {
            calls.locks.followedLeases.close()
            calls.runtime.deadlines.cancelAll()
            let closing = [subscriber.close(), watch.close(), lockPipeline.close(), calls.runtime.pipeline.close()]
            let others = [calls.quorum?.close()].compactMap(\.self) + [calls.runtime.topology.close()]
            EventLoopFuture.andAllComplete(closing + others, on: calls.runtime.eventLoop).whenComplete { _ in
                calls.runtime.deadlines.cancelAll()
                withExtendedLifetime(self) {}
            }
        }
    }

    /// Returns the completion-based entry points for listeners on this event loop. They avoid the executor hop and the
    /// task that the async methods cost.
    ///
    /// - Precondition: The caller is on the event loop, and the result never leaves it.
    package nonisolated func callsOnEventLoop() -> CoordinatorCalls {
        assumeIsolated { UncheckedCalls(calls: $0.calls) }.calls
    }

    /// A wrapper that carries the calls out of the actor to an API on the same event loop.
    private struct UncheckedCalls: @unchecked Sendable {
        // Safe because `callsOnEventLoop` wraps and unwraps it in one call on the loop that both sides are confined to.
        let calls: CoordinatorCalls
    }

    private var runtime: CoordinatorRuntime { calls.runtime }
    /// The services, sorted by name, so that every sidecar handles them in the same order.
    private var guardedServices: [GuardedService] { calls.servicesInOrder }

    /// The events of the fleet.
    public nonisolated var events: Events { Events(subscriptions) }

    // MARK: Lifecycle

    /// Runs until graceful shutdown.
    public func run() async throws {
        start()
        try? await gracefulShutdown()
        await stop()
    }

    /// Starts connecting. Calls made from now on are answered; until Redis is connected, the answer is unavailable.
    public func start() {
        guard !isStarted else { return }
        isStarted = true
        runtime.pipeline.onUp = { [weak self] server in
            let address = server.address
            self?.assumeIsolated { $0.redisConnected(at: address) }
        }
        runtime.pipeline.onDown = { [weak self] error in self?.assumeIsolated { $0.redisDisconnected(error) } }
        runtime.pipeline.onRoundTrip = { [metrics = runtime.metrics] in
            metrics.roundTripTime.recordNanoseconds($0.nanoseconds)
        }
        subscriber.onMessage = { [weak self] channel, payload in self?.assumeIsolated { $0.receive(payload, on: channel) } }
        subscriber.onInvalidated = { [locks = calls.locks] keys in
            guard let keys else { return locks.keysChanged() }
            for key in keys { locks.keyChanged(key) }
        }
        subscriber.onSubscribed = { [weak self, subscriptions] in
            subscriptions.note(.following)
            self?.assumeIsolated { $0.readAfterReconnect() }
        }
        subscriber.onReceivingInvalidations = { [watch] in watch.setListener($0, at: $1) }
        subscriber.onDown = { [watch, subscriptions, weak subscriber] error, server in
            watch.setListener(nil, at: server)
            if subscriber?.isSubscribed == false { subscriptions.note(.interrupted(InterlockError(error))) }
        }
        watch.onTracking = { [unowned locks = calls.locks, topology = runtime.topology] server in
            locks.keysChanged { topology.serves($0, at: server) }
        }
        if let cluster = runtime.topology.cluster {
            calls.locks.wakeChannels.listener = subscriber
            cluster.onSlotsMoved = { [weak self] slots in self?.assumeIsolated { $0.slotsMoved(slots) } }
        }
        if lockPipeline !== runtime.pipeline {
            lockPipeline.onUp = { [weak self] _ in self?.assumeIsolated { $0.lockPipelineConnected() } }
            lockPipeline.onDown = { [weak self] error in self?.assumeIsolated { $0.redisDisconnected(error) } }
            lockPipeline.start()
        }
        runtime.pipeline.start()
        runtime.topology.start()
        watch.start()
        calls.quorum?.start()
        subscriber.start()
        scheduleReread()
    }

    /// Answers all waiting calls, flushes outcomes, leaves the fleet and disconnects. A stopped coordinator cannot be
    /// started again; create a new one.
    public func stop() async {
        defer { isStopped = true }
        drain()
        calls.executor.flushOutcomes(of: guardedServices)
        await withCheckedContinuation { continuation in
            calls.fleet.leave { continuation.resume() }
        }
        // Waits for the releases of grants to cancelled callers.
        await withCheckedContinuation { continuation in
            runtime.pipeline.drain { continuation.resume() }
        }
        calls.locks.followedLeases.close()
        runtime.deadlines.cancelAll()
        // Closing cannot fail, because only this side completes the futures.
        try? await subscriber.close().get()
        try? await watch.close().get()
        try? await calls.quorum?.close().get()
        if lockPipeline !== runtime.pipeline { try? await lockPipeline.close().get() }
        try? await runtime.pipeline.close().get()
        try? await runtime.topology.close().get()
        subscriptions.finish()
    }

    /// Answers every waiting call as unavailable. Later calls do not wait.
    package func drain() {
        calls.isShuttingDown = true
        resumeReadinessWaiters()
        calls.locks.failWaiters(.shuttingDown)
        calls.locks.followedLeases.shutDown()
        calls.locks.shutDown()
        calls.quorum?.drain()
        calls.executor.shutDown(guardedServices)
    }

    /// Applies new definitions. Services that remain keep their state, their waiters and their breaker.
    ///
    /// - Throws: `InterlockError` with `invalid` if a definition cannot be used, in which case none is applied.
    public func reload(services definitions: [ServiceDefinition]) throws(InterlockError) {
        do throws(DefinitionError) {
            try definitions.check()
        } catch {
            throw InterlockError(error)
        }
        var next: [String: GuardedService] = [:]
        for definition in definitions {
            if let existing = calls.services[definition.name] {
                let limits = existing.gate.definition.limits
                existing.redefine(definition)
                next[definition.name] = existing
                calls.executor.definitionChanged(existing, limitsChanged: limits != definition.limits)
            } else {
                let service = GuardedService(definition: definition)
                next[definition.name] = service
                calls.executor.read(CollectionOfOne(service))
            }
        }
        for service in guardedServices where next[service.name] == nil {
            calls.executor.remove(service)
        }
        calls.services = next
        calls.publishConfiguration()
        for service in guardedServices { calls.executor.reconsider(service) }
        for action in calls.reloadActions { action() }
        runtime.logger.log(.servicesReloaded, ["services": "\(guardedServices.count)"])
    }

    /// Makes new connections to Redis use the passwords and certificates of `configuration`, which must name the same
    /// servers. Does not affect open connections.
    package func reload(secretsOf configuration: InterlockConfiguration) {
        runtime.topology.replaceSecrets(by: configuration.redis)
        calls.quorum?.servers.replaceSecrets(by: configuration.quorum)
    }

    /// Replaces the domains and their rules.
    package func reload(domains: [RateLimitDomain]) {
        calls.domains.redefine(domains)
        calls.publishConfiguration()
    }

    /// Whether calls can be served: Redis is connected, as is a majority of the quorum if one is configured, the
    /// coordinator is not shutting down, and Redis is not a cluster that is configured as a single server.
    public var isReady: Bool {
        isRedisUp && !calls.isShuttingDown && calls.quorum?.isReachable ?? true && calls.fleet.unusableReason == nil
    }

    private var isRedisUp: Bool { runtime.pipeline.isUp && lockPipeline.isUp }
    /// Whether every key is reachable, on a cluster on every server.
    private var isEveryKeyReachable: Bool { runtime.pipeline.reachesAllKeys && lockPipeline.reachesAllKeys }

    /// Waits until Redis is connected, the coordinator is stopped or the task is cancelled. Does not wait for the
    /// other conditions of `isReady`, such as a quorum, so `isReady` may still be `false`.
    /// - Parameter timeout: the maximum wait; `nil` for no limit.
    /// - Returns: whether Redis is connected.
    @discardableResult
    public func waitUntilReady(timeout: Duration? = nil) async -> Bool {
        guard !isRedisUp, !calls.isShuttingDown else { return isRedisUp }
        lastReadinessWaiter += 1
        let number = lastReadinessWaiter
        let end = timeout.map { timeout in
            runtime.deadlines.schedule(at: runtime.time.now().advanced(byMilliseconds: timeout.wholeMilliseconds)) {
                [weak self] in self?.assumeIsolated { $0.endReadinessWait(number) }
            }
        }
        defer { end?.cancel() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled { continuation.resume() } else { readinessWaiters[number] = continuation }
            }
        } onCancel: {
            Task { await endReadinessWait(number) }
        }
        return isRedisUp
    }

    private func endReadinessWait(_ number: Int) { readinessWaiters.removeValue(forKey: number)?.resume() }

    private func resumeReadinessWaiters() {
        let waiting = readinessWaiters.values
        readinessWaiters = [:]
        for continuation in waiting { continuation.resume() }
    }

    /// A summary of the coordinator's state.
    package var status: CoordinatorStatus { calls.status }

    /// Brings the gauges up to date before the metrics are read.
    package func refreshGauges() {
        for action in calls.metricsRefreshActions { action() }
        calls.domains.refreshGauges()
        calls.quotas.refreshGauges()
        let metrics = runtime.metrics
        let status = calls.status
        metrics.leases.record(status.locksHeld)
        metrics.waiters.record(status.locksWaiting)
        metrics.commands.increment(by: status.redisCommands - metrics.commandsCounted)
        metrics.commandsCounted = status.redisCommands
        let refusals = runtime.pipeline.refusals + calls.locks.refusalsOnOtherConnections
        metrics.refusals.increment(by: refusals - metrics.refusalsCounted)
        metrics.refusalsCounted = refusals
        metrics.isConnected.record(runtime.pipeline.isUp ? 1 : 0)
        if let switches = status.primary?.switches ?? status.cluster?.switches {
            metrics.switches.increment(by: Int64(switches) - metrics.switchesCounted)
            metrics.switchesCounted = Int64(switches)
        }
        if let cluster = status.cluster {
            metrics.primariesConnected.record(cluster.primaries.count(where: \.isConnected))
            metrics.slotsCovered.record(cluster.slotsCovered)
        }
        metrics.fleet.record(max(1, calls.fleet.members.count))
        metrics.leasesLinked.record(calls.locks.followedLeases.linkedCount)
        metrics.leasesFollowed.record(calls.locks.followedLeases.count - calls.locks.followedLeases.linkedCount)
        metrics.permitsInFlight.record(status.permitsInFlight)
        let now = runtime.time.now()
        for service in guardedServices {
            service.metrics.waiting.record(service.gate.limiter.waitingCount)
            service.metrics.subjects.record(service.knownSubjects(now: now))
            service.metrics.slotsInUse.record(service.gate.bulkhead.taken)
            service.metrics.permitsWaiting.record(service.gate.waitingCount)
            service.metrics.record(
                state: service.gate.breaker.actingState(now: now), forced: service.gate.breaker.forced(now: now))
        }
    }

    // MARK: Connection changes

    private func redisConnected(at server: RedisConfiguration.Address) {
        runtime.logger.log(.redisConnected, ["redis": runtime.keys.isOnCluster ? "\(server)" : runtime.redisName])
        runtime.metrics.reconnects.increment()
        endRedisOutageIfRecovered()
        calls.fleet.redisReconnected(at: server)
        calls.locks.redisReconnected()
        readAfterReconnect()
        for service in guardedServices { calls.executor.redisReconnected(service) }
        calls.domains.redisReconnected()
        if isRedisUp { resumeReadinessWaiters() }
    }

    /// Re-reads the locks in hash slots that moved to other servers of a cluster.
    private func slotsMoved(_ slots: Set<HashSlot>) {
        calls.locks.keysMoved { slots.contains(HashSlot(ofKey: $0)) }
    }

    private func lockPipelineConnected() {
        endRedisOutageIfRecovered()
        calls.locks.redisReconnected()
        if isRedisUp { resumeReadinessWaiters() }
    }

    private func endRedisOutageIfRecovered() {
        guard isEveryKeyReachable else { return }
        redisOutageTimer?.cancel()
        redisOutageTimer = nil
    }

    private func redisDisconnected(_ error: RedisError) {
        runtime.metrics.connectionFailures.increment()
        hasLostRedis = true
        guard redisOutageTimer == nil else { return }
        scheduleRedisOutageCheck(isFirst: true)
    }

    /// Schedules the check that fails waiting calls when Redis has been down for `redis.timeout`. It repeats until
    /// Redis is back, for calls that start waiting later.
    private func scheduleRedisOutageCheck(isFirst: Bool) {
        let deadline = runtime.time.now().advanced(byMilliseconds: runtime.timeoutMilliseconds)
        redisOutageTimer = runtime.deadlines.schedule(at: deadline) { [weak self] in
            self?.assumeIsolated { $0.checkRedisOutage(isFirst: isFirst) }
        }
    }

    private func checkRedisOutage(isFirst: Bool) {
        guard !isEveryKeyReachable else { return redisOutageTimer = nil }
        let reason =
            runtime.pipeline.lastFailure ?? lockPipeline.lastFailure ?? RedisError(.notConnected, "Redis is not connected")
        // A brief restart gets no warning; each outage gets exactly one.
        if isFirst {
            runtime.logger.log(
                .redisLost, ["redis": configuration.redis.displayName, "error": "\(reason)"])
        }
        calls.locks.failUnreachable(reason)
        scheduleRedisOutageCheck(isFirst: false)
    }

    // MARK: Following the fleet

    private func scheduleReread() {
        // The jitter keeps the sidecars of a fleet from reading in lockstep.
        let pause =
            Self.rereadMilliseconds * 9 / 10 + Int64.random(in: 0...(Self.rereadMilliseconds / 10), using: &runtime.entropy)
        runtime.deadlines.schedule(at: runtime.time.now().advanced(byMilliseconds: pause)) { [weak self] in
            self?.assumeIsolated { $0.rereadAndReschedule() }
        }
    }

    private func rereadAndReschedule() {
        calls.executor.removeLapsedPermits(of: guardedServices)
        calls.fleet.heartbeat()
        reread()
        scheduleReread()
    }

    private func reread() {
        guard runtime.pipeline.isUp else { return }
        readBreakers()
        calls.locks.wakeAll()
    }

    private func readBreakers() {
        guard runtime.pipeline.isUp else { return }
        calls.executor.read(guardedServices)
        calls.executor.flushOutcomes(of: guardedServices)
    }

    /// Reads immediately on the first connection. After an outage, the sidecars of a fleet spread their reads over
    /// time.
    private func readAfterReconnect() {
        guard hasLostRedis else { return reread() }
        calls.locks.wakeAll()
        readTimer?.cancel()
        let pause = Int64.random(in: 0...Self.recoverySpreadMilliseconds, using: &runtime.entropy)
        readTimer = runtime.deadlines.schedule(at: runtime.time.now().advanced(byMilliseconds: pause)) { [weak self] in
            self?.assumeIsolated { $0.readBreakers() }
        }
    }

    private func receive(_ payload: [UInt8], on channel: String) {
        guard channel == keys.events else {
            guard let message = WakeMessage(payload) else { return }
            return calls.locks.receive(message)
        }
        guard let received = ReceivedEvent(payload), received.database == runtime.database else { return }
        switch received.event?.payload {
        case .breaker(let event):
            guard let service = calls.services[event.service], let time = received.event?.atMilliseconds else { break }
            calls.executor.received(event.breaker, redisTime: time, of: service)
        case .lock(let event):
            switch event.kind {
            case .broken: calls.lockBroken(event.lock)
            }
        case .limit:
            // This sidecar's own events were already delivered when they were published.
            if received.event?.origin == id { return }
        case .fleet(let event):
            calls.fleet.received(event)
        case nil:
            break
        }
        calls.feed.publish(received)
    }
}
