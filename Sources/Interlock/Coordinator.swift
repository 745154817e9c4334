internal import CoreMetrics
public import InterlockCore
public import Logging
package import NIOCore
internal import NIOPosix
internal import RedisClient
public import ServiceLifecycle

/// The core of a sidecar: locks, limits and breakers over one shared Redis. Swift programs can embed it.
///
/// The coordinator, its decisions and its Redis connections live on one NIO event loop. Listeners on the same loop use
/// the completion-based methods of `loopBound`, which need neither a thread change nor a task per call. All
/// other code calls the `async` methods.
public actor Coordinator: Service {
    /// The event loop to which the coordinator is confined.
    package nonisolated let eventLoop: any EventLoop
    /// An executor on the coordinator's event loop. Tasks that prefer it call the coordinator without a thread change;
    /// the thread change is most of the cost of an uncontended lock for a single caller. The tasks must not block.
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
    let loopCoordinator: LoopBoundCoordinator
    private let subscriptions: EventSubscriptions
    private let subscriber: any RedisReceiver
    private let watch: KeyWatch
    /// The connection on which locks are granted. If grants wait for replicas, it serves no other purpose.
    private let lockPipeline: any RedisSender
    private let components: Components
    private var isStarted = false
    private var isStopped = false
    private var redisOutageTimer: Deadlines.Entry?
    private var hasLostRedis = false
    private var readTimer: Deadlines.Entry?
    private var readinessWaiters: [Int: CheckedContinuation<Void, Never>] = [:]
    private var lastReadinessWaiterID = 0

    /// Runs the actor on `eventLoop`.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        eventLoop.executor.asUnownedSerialExecutor()
    }

    /// The interval, in milliseconds, at which the coordinator reads again all state that other sidecars may change, in
    /// case a message was lost.
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
        loopCoordinator = LoopBoundCoordinator(
            runtime: runtime, configuration: configuration, lockPipeline: lockPipeline, watch: watch)
        subscriptions = loopCoordinator.feed.subscriptions
        subscriber = runtime.topology.receiver(channels: [runtime.keys.events, runtime.keys.wake(runtime.id)])
        components = Components(
            loopCoordinator: loopCoordinator, lockPipeline: lockPipeline, watch: watch, subscriber: subscriber)
    }

    deinit {
        subscriptions.finish()
        guard isStarted, !isStopped else { return }
        // The coordinator was dropped without `stop`. Pending timers and replies still refer to its components, so this
        // closure keeps the components alive on the event loop until their connections are closed.
        eventLoop.execute { [components] in components.close() }
    }

    /// The components of a coordinator, which must outlive it until they are closed.
    private struct Components: @unchecked Sendable {
        // Safe because the components are used only on the coordinator's event loop.
        let loopCoordinator: LoopBoundCoordinator
        let lockPipeline: any RedisSender
        let watch: KeyWatch
        let subscriber: any RedisReceiver

        func close() {
            loopCoordinator.locks.followedLeases.close()
            loopCoordinator.runtime.deadlines.cancelAll()
            let connections = [subscriber.close(), watch.close(), lockPipeline.close(), loopCoordinator.runtime.pipeline.close()]
            let others = [loopCoordinator.quorum?.close()].compactMap(\.self) + [loopCoordinator.runtime.topology.close()]
            EventLoopFuture.andAllComplete(connections + others, on: loopCoordinator.runtime.eventLoop).whenComplete { _ in
                loopCoordinator.runtime.deadlines.cancelAll()
                withExtendedLifetime(self) {}
            }
        }
    }

    /// Returns the completion-based entry points for listeners on this event loop. They avoid the executor hop and the
    /// task that the async methods cost.
    ///
    /// - Precondition: The caller is on the event loop, and the result never leaves it.
    package nonisolated func loopBound() -> LoopBoundCoordinator {
        assumeIsolated { UncheckedCoordinator(coordinator: $0.loopCoordinator) }.coordinator
    }

    /// A wrapper that carries the loop-bound coordinator out of the actor to an API on the same event loop.
    private struct UncheckedCoordinator: @unchecked Sendable {
        // Safe because `loopBound` wraps and unwraps it in one call on the loop that both sides are confined to.
        let coordinator: LoopBoundCoordinator
    }

    private var runtime: CoordinatorRuntime { loopCoordinator.runtime }
    /// The services, sorted by name, so that every sidecar handles them in the same order.
    private var guardedServices: [GuardedService] { loopCoordinator.servicesInOrder }

    /// The events of the fleet.
    public nonisolated var events: Events { Events(subscriptions) }

    // MARK: Lifecycle

    /// Runs until graceful shutdown.
    public func run() async throws {
        start()
        try? await gracefulShutdown()
        await stop()
    }

    /// Starts to connect. Calls are answered from now on, with `unavailable` until Redis is connected.
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
        subscriber.onInvalidated = { [locks = loopCoordinator.locks] keys in
            guard let keys else { return locks.keysChanged() }
            for key in keys { locks.keyChanged(key) }
        }
        subscriber.onSubscribed = { [weak self, subscriptions] in
            subscriptions.recordConnection(.following)
            self?.assumeIsolated { $0.readAfterReconnect() }
        }
        subscriber.onReceivingInvalidations = { [watch] in watch.setListener($0, at: $1) }
        subscriber.onDown = { [watch, subscriptions, weak subscriber] error, server in
            watch.setListener(nil, at: server)
            if subscriber?.isSubscribed == false { subscriptions.recordConnection(.interrupted(InterlockError(error))) }
        }
        watch.onTracking = { [unowned locks = loopCoordinator.locks, topology = runtime.topology] server in
            locks.keysChanged { topology.serves($0, at: server) }
        }
        if let cluster = runtime.topology.cluster {
            loopCoordinator.locks.wakeChannels.receiver = subscriber
            cluster.onSlotsMoved = { [weak self] slots in self?.assumeIsolated { $0.slotsMoved(slots) } }
        }
        if lockPipeline !== runtime.pipeline { startLockPipeline() }
        runtime.pipeline.start()
        runtime.topology.start()
        watch.start()
        loopCoordinator.quorum?.start()
        subscriber.start()
        scheduleReread()
    }

    private func startLockPipeline() {
        lockPipeline.onUp = { [weak self] _ in self?.assumeIsolated { $0.lockPipelineConnected() } }
        lockPipeline.onDown = { [weak self] error in self?.assumeIsolated { $0.redisDisconnected(error) } }
        lockPipeline.start()
    }

    /// Answers all waiting calls, sends the remaining outcomes, leaves the fleet and disconnects. A stopped coordinator
    /// cannot be started again; create a new one.
    public func stop() async {
        defer { isStopped = true }
        drain()
        loopCoordinator.executor.flushOutcomes(of: guardedServices)
        await withCheckedContinuation { continuation in
            loopCoordinator.fleet.leave { continuation.resume() }
        }
        // Wait until grants to cancelled callers are released.
        await withCheckedContinuation { continuation in
            runtime.pipeline.drain { continuation.resume() }
        }
        loopCoordinator.locks.followedLeases.close()
        runtime.deadlines.cancelAll()
        // Closing cannot fail, because only this side completes the futures.
        try? await subscriber.close().get()
        try? await watch.close().get()
        try? await loopCoordinator.quorum?.close().get()
        if lockPipeline !== runtime.pipeline { try? await lockPipeline.close().get() }
        try? await runtime.pipeline.close().get()
        try? await runtime.topology.close().get()
        subscriptions.finish()
    }

    /// Answers every waiting call as unavailable. Later calls do not wait.
    package func drain() {
        loopCoordinator.isShuttingDown = true
        resumeReadinessWaiters()
        loopCoordinator.locks.failWaiters(.shuttingDown)
        loopCoordinator.locks.followedLeases.shutDown()
        loopCoordinator.locks.shutDown()
        loopCoordinator.quorum?.drain()
        loopCoordinator.executor.shutDown(guardedServices)
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
        var newServices: [String: GuardedService] = [:]
        for definition in definitions {
            if let existing = loopCoordinator.services[definition.name] {
                let limits = existing.gate.definition.limits
                existing.redefine(definition)
                newServices[definition.name] = existing
                loopCoordinator.executor.definitionChanged(existing, limitsChanged: limits != definition.limits)
            } else {
                let service = GuardedService(definition: definition)
                newServices[definition.name] = service
                loopCoordinator.executor.read(CollectionOfOne(service))
            }
        }
        for service in guardedServices where newServices[service.name] == nil {
            loopCoordinator.executor.remove(service)
        }
        loopCoordinator.services = newServices
        loopCoordinator.publishConfiguration()
        for service in guardedServices { loopCoordinator.executor.reconsider(service) }
        for action in loopCoordinator.reloadActions { action() }
        runtime.logger.log(.servicesReloaded, ["services": "\(guardedServices.count)"])
    }

    /// Makes new connections to Redis use the passwords and certificates of `configuration`, which must name the same
    /// servers. Does not affect open connections.
    package func reload(secretsOf configuration: InterlockConfiguration) {
        runtime.topology.replaceSecrets(by: configuration.redis)
        loopCoordinator.quorum?.servers.replaceSecrets(by: configuration.quorum)
    }

    /// Replaces the domains and their rules.
    package func reload(domains: [RateLimitDomain]) {
        loopCoordinator.domains.redefine(domains)
        loopCoordinator.publishConfiguration()
    }

    /// Whether calls can be served. Requires that Redis is connected, that a majority of the quorum is connected if one
    /// is configured, that the coordinator is not shutting down, and that Redis is not a cluster that is configured as
    /// a single server.
    public var isReady: Bool {
        isRedisUp && !loopCoordinator.isShuttingDown && loopCoordinator.quorum?.isReachable ?? true
            && loopCoordinator.fleet.unusableReason == nil
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
        guard !isRedisUp, !loopCoordinator.isShuttingDown else { return isRedisUp }
        lastReadinessWaiterID += 1
        let waiterID = lastReadinessWaiterID
        let timeoutEntry = timeout.map { timeout in
            runtime.deadlines.schedule(at: runtime.time.now().advanced(byMilliseconds: timeout.wholeMilliseconds)) {
                [weak self] in self?.assumeIsolated { $0.endReadinessWait(waiterID) }
            }
        }
        defer { timeoutEntry?.cancel() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled { continuation.resume() } else { readinessWaiters[waiterID] = continuation }
            }
        } onCancel: {
            Task { await endReadinessWait(waiterID) }
        }
        return isRedisUp
    }

    private func endReadinessWait(_ waiterID: Int) { readinessWaiters.removeValue(forKey: waiterID)?.resume() }

    private func resumeReadinessWaiters() {
        let continuations = readinessWaiters.values
        readinessWaiters = [:]
        for continuation in continuations { continuation.resume() }
    }

    /// A summary of the coordinator's state.
    package var status: CoordinatorStatus { loopCoordinator.status }

    /// Updates the gauges before the metrics are read.
    package func refreshGauges() {
        for action in loopCoordinator.metricsRefreshActions { action() }
        loopCoordinator.domains.refreshGauges()
        loopCoordinator.quotas.refreshGauges()
        let metrics = runtime.metrics
        let status = loopCoordinator.status
        metrics.leases.record(status.heldLockCount)
        metrics.waiters.record(status.lockWaiterCount)
        metrics.commands.increment(by: status.redisCommandCount - metrics.commandsCounted)
        metrics.commandsCounted = status.redisCommandCount
        let refusals = runtime.pipeline.refusalCount + loopCoordinator.locks.refusalsOnOtherConnections
        metrics.refusals.increment(by: refusals - metrics.refusalsCounted)
        metrics.refusalsCounted = refusals
        metrics.isConnected.record(runtime.pipeline.isUp ? 1 : 0)
        if let switches = status.primary?.switchCount ?? status.cluster?.switchCount {
            metrics.switches.increment(by: Int64(switches) - metrics.switchesCounted)
            metrics.switchesCounted = Int64(switches)
        }
        if let cluster = status.cluster {
            metrics.primariesConnected.record(cluster.primaries.count(where: \.isConnected))
            metrics.slotsCovered.record(cluster.coveredSlotCount)
        }
        metrics.fleet.record(max(1, loopCoordinator.fleet.members.count))
        metrics.leasesLinked.record(loopCoordinator.locks.followedLeases.linkedCount)
        metrics.leasesFollowed.record(
            loopCoordinator.locks.followedLeases.count - loopCoordinator.locks.followedLeases.linkedCount)
        metrics.permitsInFlight.record(status.inFlightPermitCount)
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
        loopCoordinator.fleet.redisReconnected(at: server)
        loopCoordinator.locks.redisReconnected()
        readAfterReconnect()
        for service in guardedServices { loopCoordinator.executor.redisReconnected(service) }
        loopCoordinator.domains.redisReconnected()
        if isRedisUp { resumeReadinessWaiters() }
    }

    /// Re-reads the locks in hash slots that moved to other servers of a cluster.
    private func slotsMoved(_ slots: Set<HashSlot>) {
        loopCoordinator.locks.keysMoved { slots.contains(HashSlot(ofKey: $0)) }
    }

    private func lockPipelineConnected() {
        endRedisOutageIfRecovered()
        loopCoordinator.locks.redisReconnected()
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

    /// Schedules the check that fails waiting calls once Redis has been down for `redis.timeout`. The check repeats
    /// until Redis is back, because other calls may start to wait.
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
        // A brief restart causes no warning; each longer outage causes exactly one.
        if isFirst {
            runtime.logger.log(
                .redisLost, ["redis": configuration.redis.displayName, "error": "\(reason)"])
        }
        loopCoordinator.locks.failUnreachable(reason)
        scheduleRedisOutageCheck(isFirst: false)
    }

    // MARK: Following the fleet

    private func scheduleReread() {
        // The jitter keeps the sidecars of a fleet from reading in lockstep.
        let pauseMilliseconds =
            Self.rereadMilliseconds * 9 / 10 + Int64.random(in: 0...(Self.rereadMilliseconds / 10), using: &runtime.entropy)
        runtime.deadlines.schedule(at: runtime.time.now().advanced(byMilliseconds: pauseMilliseconds)) { [weak self] in
            self?.assumeIsolated { $0.rereadAndReschedule() }
        }
    }

    private func rereadAndReschedule() {
        loopCoordinator.executor.removeLapsedPermits(of: guardedServices)
        loopCoordinator.fleet.heartbeat()
        reread()
        scheduleReread()
    }

    private func reread() {
        guard runtime.pipeline.isUp else { return }
        readBreakers()
        loopCoordinator.locks.wakeAll()
    }

    private func readBreakers() {
        guard runtime.pipeline.isUp else { return }
        loopCoordinator.executor.read(guardedServices)
        loopCoordinator.executor.flushOutcomes(of: guardedServices)
    }

    /// Reads immediately on the first connection. After an outage, the sidecars of a fleet spread their reads over
    /// `recoverySpreadMilliseconds`.
    private func readAfterReconnect() {
        guard hasLostRedis else { return reread() }
        loopCoordinator.locks.wakeAll()
        readTimer?.cancel()
        let pauseMilliseconds = Int64.random(in: 0...Self.recoverySpreadMilliseconds, using: &runtime.entropy)
        let readAt = runtime.time.now().advanced(byMilliseconds: pauseMilliseconds)
        readTimer = runtime.deadlines.schedule(at: readAt) { [weak self] in
            self?.assumeIsolated { $0.readBreakers() }
        }
    }

    private func receive(_ payload: [UInt8], on channel: String) {
        guard channel == keys.events else {
            guard let message = WakeMessage(payload) else { return }
            return loopCoordinator.locks.receive(message)
        }
        guard let message = ReceivedEvent(payload), message.database == runtime.database else { return }
        switch message.event?.payload {
        case .breaker(let event):
            guard let service = loopCoordinator.services[event.service], let milliseconds = message.event?.atMilliseconds else {
                break
            }
            loopCoordinator.executor.eventReceived(event.breaker, redisTimeMilliseconds: milliseconds, of: service)
        case .lock(let event):
            switch event.kind {
            case .broken: loopCoordinator.lockBroken(event.lock)
            }
        case .limit:
            // This sidecar's own events were already delivered when they were published.
            if message.event?.origin == id { return }
        case .fleet(let event):
            loopCoordinator.fleet.eventReceived(event)
        case nil:
            break
        }
        loopCoordinator.feed.publish(message)
    }
}
