internal import CoreMetrics
package import InterlockCore
internal import NIOCore
internal import RedisClient

/// The completion-based entry points for listeners on the coordinator's event loop. They avoid the executor hop and the
/// task that the async methods cost. A call's `completion` runs on the event loop, exactly once unless the call is
/// cancelled, and possibly before the method returns.
///
/// Confined to the coordinator's event loop: only `Coordinator.loopBound` returns it, and only there.
package final class LoopBoundCoordinator {
    let runtime: CoordinatorRuntime
    /// Locks on a single Redis; unused if a quorum is configured.
    let locks: LockCoordinator
    /// Locks on a quorum; `nil` if locks are kept on a single Redis.
    let quorum: QuorumLocks?
    private let provider: any LockProvider
    let executor: ServiceExecutor
    let domains: DomainCoordinator
    let quotas: QuotaCoordinator
    let fleet: FleetCoordinator
    let feed: EventFeed
    private var jointAcquisitions: [UInt64: JointAcquisition] = [:]
    private var lastJointID: UInt64 = 0
    private var immediateAnswerCount = 0
    /// The last count of valid leases, and the time until which it may be reused.
    private var heldCache = (count: 0, until: Instant(nanoseconds: .min))
    var services: [String: GuardedService] = [:] {
        didSet {
            servicesVersion += 1
            servicesInOrder = services.values.sorted { $0.name < $1.name }
        }
    }
    /// All services, by name.
    private(set) var servicesInOrder: [GuardedService] = []
    /// Increases whenever the services are replaced.
    package private(set) var servicesVersion = 0
    /// `locks.max_wait` in milliseconds: the maximum wait of any call, including calls that wait for a limit.
    private let maximumWaitMilliseconds: Int64
    /// Whether the sidecar is shutting down and no new call may wait.
    var isShuttingDown = false

    init(
        runtime: CoordinatorRuntime, configuration: InterlockConfiguration, lockPipeline: any RedisSender, watch: KeyWatch
    ) {
        self.runtime = runtime
        let dropped = runtime.metrics.eventsDropped
        feed = EventFeed(subscriptions: EventSubscriptions { dropped.increment() })
        maximumWaitMilliseconds = configuration.locks.maximumWait.wholeMilliseconds
        let scripts = LockScripts(configuration.locks, isOnCluster: runtime.keys.isOnCluster)
        locks = LockCoordinator(
            runtime: runtime, settings: configuration.locks, scripts: scripts, pipeline: lockPipeline, watch: watch)
        quorum =
            configuration.quorum.isEmpty
            ? nil
            : QuorumLocks(runtime: runtime, settings: configuration.locks, scripts: scripts, servers: configuration.quorum)
        provider = quorum ?? locks
        domains = DomainCoordinator(
            runtime: runtime, domains: configuration.domains.definitions, timeout: configuration.domains.timeout)
        quotas = QuotaCoordinator(runtime: runtime, domains: domains)
        executor = ServiceExecutor(runtime: runtime, publisher: EventPublisher(runtime: runtime, feed: feed))
        services = Dictionary(
            configuration.services.map { ($0.name, GuardedService(definition: $0)) }, uniquingKeysWith: { $1 })
        fleet = FleetCoordinator(
            runtime: runtime, version: configuration.version,
            configuration: ConfigurationDigest(
                services: services.mapValues(\.digest), domains: domains.digests))
        servicesInOrder = services.values.sorted { $0.name < $1.name }
    }

    /// Publishes the new digest after services or domains were reloaded.
    func publishConfiguration() {
        fleet.publishConfiguration(ConfigurationDigest(services: services.mapValues(\.digest), domains: domains.digests))
    }

    /// The actions that refresh metrics before they are read.
    package var metricsRefreshActions: [() -> Void] = []
    /// The actions that run after new service definitions were applied.
    package var reloadActions: [() -> Void] = []

    /// A summary of the coordinator's state.
    package var status: CoordinatorStatus {
        CoordinatorStatus(
            id: runtime.id, host: runtime.host, version: fleet.version, redis: runtime.redisName,
            redisScope: runtime.redisScope,
            isRedisUp: runtime.pipeline.isUp, redisFailure: redisFailure,
            primary: runtime.topology.primary.map(PrimaryStatus.init),
            cluster: runtime.topology.cluster.map { ClusterStatus($0, connections: runtime.pipeline.connections) },
            replicaCount: runtime.topology.replicaCount, waitReplicas: locks.settings.waitReplicas,
            redisVersion: fleet.redisVersion, evictionPolicy: fleet.serverInfo["maxmemory_policy"],
            fleet: fleet.members.isEmpty ? [runtime.id] : fleet.members, heldLockCount: locksHeld(),
            lockWaiterCount: provider.waitingCount, maximumWaitMilliseconds: maximumWaitMilliseconds,
            serviceCount: services.count,
            servicesDiffering: fleet.differences.map(\.service),
            inFlightPermitCount: servicesInOrder.reduce(0) { $0 + $1.gate.permits.count },
            waitingPermitCount: servicesInOrder.reduce(0) { $0 + $1.gate.waitingCount },
            redisCommandCount: redisCommandCount)
    }

    /// Returns the number of valid leases. Counting is O(n), so a count above the threshold is reused for a second.
    private func locksHeld() -> Int {
        let now = runtime.time.now()
        guard heldCache.count <= Self.heldCacheThreshold || heldCache.until <= now else { return heldCache.count }
        heldCache = (provider.heldLeaseCount(now: now), now.advanced(byMilliseconds: 1000))
        return heldCache.count
    }

    private static let heldCacheThreshold = 1000

    var redisCommandCount: Int64 {
        runtime.pipeline.sentCommandCount + locks.commandsOnOtherConnections + (quorum?.commandsSent ?? 0)
    }

    var history: GrantHistory { provider.history }

    /// Whether Redis, or the handling of its replies, has a backlog that would delay a new command.
    package var isRedisBusy: Bool {
        max(runtime.pipeline.pendingCount, locks.pendingCount) >= Self.busyThreshold || executor.backedUpServices > 0
            || quorum?.isBusy(from: Self.busyThreshold) ?? false
    }
    private static let busyThreshold = 64

    private var redisFailure: String? {
        runtime.pipeline.lastFailure?.message ?? fleet.unusableReason ?? runtime.pipeline.recentRefusal?.message
            ?? locks.recentRefusal?.message
    }

    // MARK: Domains

    /// Decides whether the limits of a domain allow a request with these descriptors. `completion` is called once,
    /// within the timeout of domains.
    /// - Returns: whether the domain is configured; if not, `completion` is not called.
    package func decide(
        _ domain: String, _ requested: [RequestedDescriptor], completion: Completion<DescriptorResult>
    ) -> Bool {
        domains.decide(domain, requested, completion: completion)
    }

    /// Reports on all domains, by name. Does not use Redis.
    package func allDomains() -> [DomainReport] { domains.reports() }

    /// Calls `completion` with the decision that the matching rule would make on a descriptor of cost 1. Takes nothing.
    /// If the retry time of a refusal is unknown, the decision has the reset time instead.
    /// - Parameter descriptor: the entries as in the key of the counter, `key=value,key=value`.
    package func peek(domain name: String, descriptor: String, completion: Completion<TakeResult>) {
        func fail(_ message: String) { completion(.failed(InterlockError(.invalid, message))) }
        guard let entries = DescriptorEntry.list(descriptor) else {
            return fail("descriptor: expected key=value,key=value with %2C for a comma, got \"\(Excerpt(descriptor))\"")
        }
        let isKnown = domains.decide(
            name, [RequestedDescriptor(entries: entries, cost: 0)], isExcludedFromMetrics: true,
            completion: Completion { [domains] _, result in
                switch result {
                case .failed(let error): return completion(.failed(error))
                case .decided(let decision):
                    let status = decision.statuses[0]
                    guard let rule = status.rule else {
                        fail("the descriptor matches no rule of the domain \"\(Excerpt(name))\"; the request is allowed")
                        return true
                    }
                    guard decision.cause != .redis else {
                        return completion(
                            .failed(InterlockError(.unavailable, "Redis is unreachable, so the remaining quota is unknown")))
                    }
                    return completion(.decided(CallDecision(status, of: rule, isShadow: domains.isShadow(rule, in: name))))
                }
            })
        guard !isKnown else { return }
        let hint = Self.suggestion(for: name, among: domains.digests.keys) ?? "see rate_limits"
        fail("no domain \"\(Excerpt(name))\" is configured; \(hint)")
    }

    /// Returns a hint that suggests the closest name; `nil` if no name is close, or if there are too many names to
    /// compare on the event loop.
    private static func suggestion(for name: String, among names: some Collection<String>) -> String? {
        guard names.count <= 100 else { return nil }
        return ConfigurationText.closest(to: name, among: names.sorted()).map { "did you mean \($0)?" }
    }

    /// Begins a session of a data plane that enforces a domain's quotas and reports its usage.
    /// - Parameters:
    ///   - address: the host that reports.
    ///   - client: the name of the API key whose limits on sessions and buckets apply; empty without a key.
    ///   - isReturning: whether the data plane has reported before, on another stream.
    ///   - send: called with new assignments until the session ends.
    /// - Returns: the session; `nil` if this client, or all clients together, have too many sessions.
    package func beginQuotaSession(
        domain: String, address: String, client: String = "", isReturning: Bool,
        send: @escaping ([QuotaAction.Assignment]) -> Void
    ) -> QuotaSession? {
        quotas.begin(domain: domain, address: address, client: client, isReturning: isReturning, send: send)
    }

    // MARK: Locks

    /// Acquires a lock, or waits for it. A free lock takes at most one round trip to Redis.
    package func acquireLock(_ request: LockRequest, completion: Completion<LockResult>) -> PendingCall? {
        var request = request
        if isShuttingDown { request.waitMilliseconds = 0 }
        if quorum != nil, request.mode != .exclusive {
            completion(.failed(.unsupportedOnQuorum("a shared lock or semaphore")))
            return nil
        }
        if runtime.keys.isReserved(lockName: request.name.text) {
            completion(.failed(.keyCollision(request.name, runtime.keys)))
            return nil
        }
        return .lock(provider.acquire(request, completion: completion))
    }

    /// Acquires all of several locks or none of them, one after another in the order of their names.
    package func acquireLocks(_ request: JointLockRequest, completion: Completion<JointLockResult>) -> PendingCall? {
        let violation =
            quorum == nil
            ? JointAcquisition.violation(in: request) : .unsupportedOnQuorum("acquiring several locks at once")
        if let violation {
            completion(.failed(violation))
            return nil
        }
        if let name = request.names.first(where: { runtime.keys.isReserved(lockName: $0.text) }) {
            completion(.failed(.keyCollision(name, runtime.keys)))
            return nil
        }
        var request = request
        request.template.waitMilliseconds =
            isShuttingDown ? 0 : min(request.template.waitMilliseconds, maximumWaitMilliseconds)
        lastJointID += 1
        let id = lastJointID
        let acquisition = JointAcquisition(request, locks: locks, time: runtime.time, completion: completion)
        jointAcquisitions[id] = acquisition
        acquisition.onEnd = { [unowned self] in jointAcquisitions[id] = nil }
        acquisition.acquireNext()
        return .locks(id)
    }

    /// Starts following a lease that was just granted.
    /// - Parameters:
    ///   - isLinked: whether the lease is renewed every third of its TTL while it is followed.
    ///   - client: the client, which follows a lease at most once; `nil` if each call is a new follower.
    ///   - onEnd: called once when the lease is released or lost, after this method has returned and no later than the
    ///     deadline of the lease; not called after `unfollowLease`. It must not block. One closure may serve many
    ///     leases.
    /// - Returns: the follower to pass to `unfollowLease`.
    package func followLease(
        _ lease: Lease, isLinked: Bool, client: AnyObject? = nil, onEnd: @escaping (LeaseEnd) -> Void
    ) -> Result<LeaseFollower, InterlockError> {
        guard quorum == nil else { return .failure(.unsupportedOnQuorum("a lease that the sidecar follows")) }
        guard !locks.followedLeases.isClosed else { return .failure(.stopped) }
        guard !locks.followedLeases.isFull(forLinked: isLinked) else { return .failure(.tooManyFollowed) }
        return .success(
            LeaseFollower(
                id: locks.followedLeases.follow(
                    lease, isLinked: isLinked, client: client.map { ObjectIdentifier($0) }, onEnd: onEnd)))
    }

    /// Stops following a lease. The lease is no longer renewed, and its loss is not reported.
    package func unfollowLease(_ follower: LeaseFollower) {
        locks.followedLeases.unfollow(follower.id)
    }

    /// Releases a followed lease whose holder has disconnected, unless another linked follower has it or its owner
    /// chose the token: a retry may hold that lease. Such a lease expires instead.
    package func releaseFollowedLease(_ follower: LeaseFollower) {
        guard let (name, token, ttlMilliseconds) = locks.followedLeases.leaseToRelease(of: follower.id) else {
            return locks.followedLeases.unfollow(follower.id)
        }
        locks.followedLeases.leaseReleased(name, token: token)
        locks.leases.recordEnd(name, token: token, .released, now: runtime.time.now())
        locks.release(name, token: token, ttlMilliseconds: ttlMilliseconds)
    }

    /// Renews a lease to `ttlMilliseconds` from now.
    /// - Parameter fence: the fence of the only lease to renew, not a later one of the same owner; `nil` for the
    ///   token's current lease.
    package func renewLock(
        _ name: ResourceName, token: String, ttlMilliseconds: Int64, fence: Int64? = nil,
        completion: Completion<RenewResult>
    ) {
        provider.renew(name: name, token: token, ttlMilliseconds: ttlMilliseconds, fence: fence, completion: completion)
    }

    /// Ends a lease.
    /// - Parameter fence: see `renewLock`.
    package func releaseLock(
        _ name: ResourceName, token: String, fence: Int64? = nil, completion: Completion<ReleaseResult>
    ) {
        provider.release(name: name, token: token, fence: fence, completion: completion)
    }

    /// Records that another sidecar reports a lock as broken.
    func lockBroken(_ name: String) { provider.lockBroken(name) }

    /// Ends the lease of a lock's holder.
    /// - Parameters:
    ///   - by: the operator, for the event that the fleet receives.
    ///   - fence: the fence of the only grant to end; `nil` for any grant.
    package func breakLock(
        _ name: ResourceName, by: String, fence: Int64? = nil, completion: Completion<ReleaseResult>
    ) {
        provider.breakLock(name: name, by: by, fence: fence, completion: completion)
    }

    /// Calls `completion` with the state of a lock; `nil` if it has neither a holder nor waiters.
    package func inspectLock(
        _ name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>
    ) {
        provider.inspect(name: name, completion: completion)
    }

    /// Calls `completion` with the state of each of these locks in the same order; `nil` for a lock that has neither a
    /// holder nor waiters. One command covers up to fifty locks; on a cluster, each lock needs its own command.
    package func inspectLocks(
        _ names: [ResourceName], completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void
    ) {
        provider.inspect(names: names, completion: completion)
    }

    /// Lists one page of the held locks. `count`, from 1 to 1000, limits the work per page; the page may hold more or
    /// fewer locks.
    package func listLocks(
        cursor: String, matching glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>
    ) {
        provider.list(cursor: cursor, glob: glob, count: max(1, min(1000, count)), completion: completion)
    }

    /// Lists the recent grants through this sidecar, newest first, without asking Redis.
    package func grants(of name: ResourceName?) -> [GrantRecord] {
        history.list(of: name?.text, now: runtime.time.now(), wallTimeMilliseconds: runtime.wallTimeMilliseconds)
    }

    // MARK: Limits

    /// Looks up a service for use in many calls. The reference is valid while `servicesVersion` is unchanged.
    package func service(_ name: String) -> Result<ServiceReference, InterlockError> {
        guard let service = services[name] else {
            let hint =
                Self.suggestion(for: name, among: services.keys)
                ?? "list the services, or see `services` in the configuration"
            return .failure(InterlockError(.unknownService, "no service \"\(Excerpt(name))\" is configured; \(hint)"))
        }
        return .success(ServiceReference(service: service))
    }

    /// Returns whether the service is configured.
    package func hasService(_ name: String) -> Bool { services[name] != nil }

    /// Calls `body` with the named service, or `fail` if it is not configured.
    private func withService(_ name: String, fail: (InterlockError) -> Void, _ body: (GuardedService) -> Void) {
        switch service(name) {
        case .success(let reference): body(reference.service)
        case .failure(let error): fail(error)
        }
    }

    /// Counts an answer that is available immediately, and returns whether to delay it by `pause`. Without the delay, a
    /// task that calls in a loop on the event loop would starve everything else there.
    func isPauseDue() -> Bool {
        immediateAnswerCount += 1
        guard immediateAnswerCount == Self.maximumImmediateAnswers else { return false }
        immediateAnswerCount = 0
        return true
    }

    /// A delay that lets the event loop run a full tick.
    static let pause = TimeAmount.microseconds(50)
    private static let maximumImmediateAnswers = 64

    /// Returns the current time of the coordinator's clock. One reading may serve all calls that arrived together.
    package func now() -> Instant { runtime.time.now() }

    /// Takes `cost` from all limits that apply to a call of the service, or from none of them.
    /// - Parameters:
    ///   - count: the number of equal calls. Each gets its own answer, under consecutive tags. Must be 1 if the call
    ///     waits.
    ///   - waitMilliseconds: the maximum wait; 0 to refuse the call instead of waiting.
    package func take(
        _ reference: ServiceReference, count: Int = 1, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<TakeResult>
    ) -> PendingCall? {
        if subject == nil, let error = reference.service.missingSubjectError {
            for call in 0..<count { completion(.failed(error), offset: call) }
            return nil
        }
        let waitMilliseconds = isShuttingDown ? 0 : min(waitMilliseconds, maximumWaitMilliseconds)
        let id = executor.take(
            reference.service, count: count, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: now,
            caller: .take(completion))
        return waitMilliseconds > 0 ? .limit(service: reference.service.name, id) : nil
    }

    /// Calls `completion` with the decision that a call of cost 1 would get. Takes nothing.
    package func peek(service name: String, subject: String?, completion: Completion<TakeResult>) {
        withService(name, fail: { completion(.failed($0)) }) {
            executor.peek($0, subject: subject, completion: completion)
        }
    }

    /// Calls `completion` with the state of each limit that applies to a call, in the order of the definition. Takes
    /// nothing.
    package func listLimits(
        service name: String, subject: String?, completion: Completion<Result<[LimitState], InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.list($0, subject: subject) { completion($0) }
        }
    }

    /// Takes from a rate that the caller specifies, like `CL.THROTTLE` of redis-cell. Fails while Redis is unreachable.
    package func throttle(
        _ request: ThrottleRequest, completion: Completion<Result<ThrottleResult, InterlockError>>
    ) {
        executor.throttle(request, completion: completion)
    }

    // MARK: Permits and breakers

    /// Asks a service's breaker, its limits and its bulkhead in this sidecar in one step. An open breaker refuses the
    /// call without asking Redis.
    /// - Parameter waitMilliseconds: the maximum wait for a limit, for a slot of the bulkhead and for the end of a
    ///   pause that a limit has caused; 0 to refuse the call instead of waiting.
    package func acquirePermit(
        _ reference: ServiceReference, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<PermitResult>
    ) -> PendingCall? {
        if subject == nil, let error = reference.service.missingSubjectError {
            completion(.failed(error))
            return nil
        }
        let waitMilliseconds = isShuttingDown ? 0 : min(waitMilliseconds, maximumWaitMilliseconds)
        return executor.acquirePermit(
            reference.service, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: now,
            completion: completion
        ).map { .permit($0) }
    }

    /// Returns whether the service has limits.
    package func hasLimits(_ reference: ServiceReference) -> Bool { !reference.service.gate.definition.limits.isEmpty }

    /// Decides, without asking Redis, whether a call whose outcome will not be reported may proceed. A half-open
    /// breaker admits the call without a trial permit, because a trial without an outcome would decide nothing.
    /// - Returns: `nil` if the breaker admits the call; otherwise its state, and the time in milliseconds after which
    ///   that state may end; -1 if that time is unknown.
    package func breakerRefusal(
        of reference: ServiceReference, now: Instant
    ) -> (state: BreakerSnapshot.State, retryAfterMilliseconds: Int64)? {
        // A half-open breaker refuses a call only if all trials are in use, and this call takes no trial.
        let state = reference.service.gate.breaker.actingState(now: now)
        guard state == .open,
            case .refuse(let retryAfterMilliseconds) = reference.service.gate.breaker.admission(now: now)
        else { return nil }
        return (state, retryAfterMilliseconds)
    }

    /// Reports the outcome of a permitted call. Calls `completion` with the breaker's state after the report.
    package func reportPermit(
        service name: String, permit: PermitID, _ report: OutcomeReport,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.report($0, permit: permit, report, completion: completion)
        }
    }

    /// Returns the state of a service's breaker that this sidecar knows, without asking Redis.
    package func breaker(service name: String) -> Result<BreakerStatus, InterlockError> {
        service(name).map { executor.status(of: $0.service) }
    }

    /// Returns the cause of the state of a service's breaker: `local` if the fleet's breaker is closed, so that only
    /// this sidecar can have opened it; empty for an unknown service.
    package func breakerCause(ofService name: String) -> String {
        guard let service = services[name] else { return "" }
        let fleet = executor.status(of: service).fleet
        return fleet.state == .closed && fleet.forced == nil ? "local" : fleet.cause
    }

    /// Returns the state of every breaker, sorted by service name, without asking Redis.
    package func allBreakers() -> [BreakerStatus] {
        servicesInOrder.map { executor.status(of: $0) }
    }

    /// Forces a breaker's state for the whole fleet; `nil` ends the forced state and closes the breaker.
    /// - Parameters:
    ///   - milliseconds: how long the state stays forced; `nil` for no end.
    ///   - reason: a human-readable description, at most `BreakerSnapshot.maximumReasonLength` bytes.
    package func forceBreaker(
        service name: String, to state: BreakerSnapshot.Forced?, forMilliseconds milliseconds: Int64? = nil,
        reason: String = "", by: String, completion: Completion<Result<BreakerStatus, InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.force($0, to: state, forMilliseconds: milliseconds, reason: reason, by: by, completion: completion)
        }
    }

    /// Reports a finding of the outage monitor to a service's breaker. Calls `completion` with the breaker's state
    /// after the report.
    ///
    /// Repeat `.down` with every further failed probe, because an outage ends `ProbeSettings.outageLifetime` after the
    /// last report. Repeat `.up` until the state is no longer `.open`. A late report has no effect if the breaker has
    /// changed in the meantime. While Redis is unreachable, a report applies to this sidecar only.
    package func reportOutage(
        service name: String, _ finding: OutageFinding,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.apply(finding, to: $0, completion: completion)
        }
    }

    /// Returns a service's definition; `nil` if it is not configured.
    package func definition(ofService name: String) -> ServiceDefinition? {
        services[name]?.gate.definition
    }

    /// Calls `completion` with the live sidecars, sorted by ID, and the description that each publishes.
    package func listFleet(completion: Completion<Result<[FleetMember], InterlockError>>) {
        fleet.list { completion($0.mapError(InterlockError.init)) }
    }

    // MARK: Cancellation and events

    /// Cancels a call. Its completion is not called, and a grant that arrives later is released.
    package func cancel(_ call: PendingCall) {
        switch call {
        case .lock(let id):
            provider.cancel(id)
        case .locks(let id):
            jointAcquisitions.removeValue(forKey: id)?.cancel()
        case .limit(let name, let id):
            guard let service = services[name] else { return }
            executor.cancelTake(id, of: service)
        case .permit(let number):
            executor.cancelPermit(number)
        }
    }

    /// Calls `follower` with each event until `unfollow`: the published message and, if its type is known, the decoded
    /// event. The follower must not block.
    package func follow(
        _ follower: @escaping (_ message: EventMessage, _ event: InterlockEvent<EventPayload>?) -> Void
    ) -> UInt64 {
        feed.add(follower)
    }

    /// Stops calling a follower of events.
    package func unfollow(_ id: UInt64) {
        feed.remove(id)
    }
}
