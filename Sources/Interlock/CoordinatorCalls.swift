internal import CoreMetrics
package import InterlockCore
internal import NIOCore
internal import RedisClient

/// A call whose answer is still to come, so that it can be given up.
package enum PendingCall: Sendable {
    case lock(UInt64)
    case locks(UInt64)
    case limit(service: String, Int)
    case permit(UInt64)
}

/// A configured service; see `CoordinatorCalls.service`.
package struct ServiceReference: Equatable {
    let service: GuardedService

    package static func == (left: ServiceReference, right: ServiceReference) -> Bool { left.service === right.service }
}

/// The calls as a door on the same event loop makes them: `completion` is called exactly once unless the call is given
/// up with `cancel`, on the event loop, possibly before the method returns. No thread changes, no task per call.
///
/// Confined to the coordinator's event loop: `Coordinator.callsOnEventLoop` hands it out there and nowhere else.
package final class CoordinatorCalls {
    let runtime: CoordinatorRuntime
    /// Locks in the one Redis; with a quorum nobody asks for them.
    let locks: LockCoordinator
    /// `nil`: locks are kept in the one Redis.
    let quorum: QuorumLocks?
    private let provider: any LockProvider
    let executor: ServiceExecutor
    let domains: DomainCoordinator
    let quotas: QuotaCoordinator
    let fleet: FleetCoordinator
    let feed: EventFeed
    private var joint: [UInt64: JointAcquisition] = [:]
    private var lastJointID: UInt64 = 0
    private var answersAtOnce = 0
    /// How many leases stand here, and until when that is not counted again.
    private var held = (count: 0, until: Instant(nanoseconds: .min))
    var services: [String: GuardedService] = [:] {
        didSet {
            servicesVersion += 1
            servicesInOrder = services.values.sorted { $0.name < $1.name }
        }
    }
    /// By name.
    private(set) var servicesInOrder: [GuardedService] = []
    /// Rises when services come and go.
    package private(set) var servicesVersion = 0
    /// `locks.max_wait` in milliseconds: nobody waits longer, for a limit neither.
    private let longestWait: Int64
    /// Nobody is let to wait any more.
    var isGoingDown = false

    init(
        runtime: CoordinatorRuntime, configuration: InterlockConfiguration, lockPipeline: any RedisSender, watch: KeyWatch
    ) {
        self.runtime = runtime
        let dropped = runtime.metrics.eventsDropped
        feed = EventFeed(subscriptions: EventSubscriptions { dropped.increment() })
        longestWait = configuration.locks.maximumWait.wholeMilliseconds
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

    /// Other definitions of services or domains are in force: the other sidecars are told.
    func reconfigured() {
        fleet.reconfigured(ConfigurationDigest(services: services.mapValues(\.digest), domains: domains.digests))
    }

    /// What is to be told to the metrics before they are read.
    package var beforeMetrics: [() -> Void] = []
    /// Called when other definitions of the services were taken over.
    package var whenReloaded: [() -> Void] = []

    /// Everything at a glance.
    package var status: CoordinatorStatus {
        CoordinatorStatus(
            id: runtime.id, host: runtime.host, version: fleet.version, redis: runtime.redisName,
            redisScope: runtime.redisScope,
            isRedisUp: runtime.pipeline.isUp, redisFailure: redisFailure,
            primary: runtime.topology.primary.map(PrimaryStatus.init),
            cluster: runtime.topology.cluster.map { ClusterStatus($0, connections: runtime.pipeline.connections) },
            replicas: runtime.topology.replicas, waitReplicas: locks.settings.waitReplicas,
            redisVersion: fleet.redisVersion, evictionPolicy: fleet.server["maxmemory_policy"],
            fleet: fleet.members.isEmpty ? [runtime.id] : fleet.members, locksHeld: locksHeld(),
            locksWaiting: provider.waiting, longestWait: longestWait, services: services.count,
            servicesDiffering: fleet.differences.map(\.service),
            permitsUnderWay: servicesInOrder.reduce(0) { $0 + $1.gate.permits.count },
            permitsWaiting: servicesInOrder.reduce(0) { $0 + $1.gate.waitingCount },
            redisCommands: redisCommands)
    }

    /// Counting them takes longer the more there are: of many, once a second is enough.
    private func locksHeld() -> Int {
        let now = runtime.time.now()
        guard held.count <= Self.countedEachTime || held.until <= now else { return held.count }
        held = (provider.held(now: now), now.advanced(byMilliseconds: 1000))
        return held.count
    }

    private static let countedEachTime = 1000

    var redisCommands: Int64 {
        runtime.pipeline.commandsSent + locks.commandsSentApart + (quorum?.commandsSent ?? 0)
    }

    var history: GrantHistory { provider.history }

    /// Redis, or this sidecar with Redis' answers, has so much to do that what comes now waits for what came before.
    package var isRedisBusy: Bool {
        max(runtime.pipeline.awaited, locks.awaited) >= Self.busy || executor.backedUp > 0
            || quorum?.isBusy(from: Self.busy) ?? false
    }
    private static let busy = 64

    private var redisFailure: String? {
        runtime.pipeline.lastFailure?.message ?? fleet.refusal ?? runtime.pipeline.recentRefusal?.message
            ?? locks.recentRefusal?.message
    }

    // MARK: Domains

    /// Decides about the descriptors of a request. `completion` is called once, within the domains' timeout.
    /// - Returns: whether the domain is configured; if it is not, `completion` is not called.
    package func decide(
        _ domain: String, _ asks: [DescriptorAsk], completion: Completion<DescriptorDecision>
    ) -> Bool {
        domains.ask(domain, asks, completion: completion)
    }

    /// All domains, by name. No Redis.
    package func allDomains() -> [DomainReport] { domains.reports() }

    /// What a descriptor of cost 1 would be told by the rule that it meets, taking nothing. That it would be refused lasts until what it
    /// is told: no rule says when there is room for one.
    /// - Parameter descriptor: as in the key of its counter, `key=value,key=value`.
    package func peek(domain name: String, descriptor: String, completion: Completion<TakeAnswer>) {
        func fail(_ message: String) { completion(.failed(InterlockError(.invalid, message))) }
        guard let entries = DescriptorEntry.list(descriptor) else {
            return fail(
                "DESCRIPTOR: expected entries as in the key of a counter, key=value,key=value with %2C for a comma, got \"\(Excerpt(descriptor))\""
            )
        }
        let isKnown = domains.ask(
            name, [DescriptorAsk(entries: entries, cost: 0)], isUncounted: true,
            completion: Completion { [domains] _, decision in
                switch decision {
                case .failed(let error): return completion(.failed(error))
                case .decided(let answer):
                    let status = answer.statuses[0]
                    guard let rule = status.rule else {
                        fail("the descriptor meets no rule of the domain \"\(Excerpt(name))\"; nothing limits it")
                        return true
                    }
                    guard answer.cause != .redis else {
                        return completion(.failed(InterlockError(.unavailable, "Redis is away: what is left is not known")))
                    }
                    return completion(.decided(LimitAnswer(status, of: rule, isShadow: domains.isShadow(rule, in: name))))
                }
            })
        guard !isKnown else { return }
        fail("no domain \"\(Excerpt(name))\" is configured; see rate_limits")
    }

    /// A data plane that holds itself to quotas of a domain begins to report.
    /// - Parameters:
    ///   - address: the host from which.
    ///   - client: the name of its API key, whose quota of sessions and buckets applies; empty for no key.
    ///   - isReturning: it has reported before, on another stream.
    ///   - tell: called with what it is to be told, until the session ends.
    /// - Returns: `nil` when this client, or all clients together, have too many sessions.
    package func beginQuotas(
        domain: String, address: String, client: String = "", isReturning: Bool, tell: @escaping ([QuotaAction.Of]) -> Void
    ) -> QuotaSession? {
        quotas.begin(domain: domain, address: address, client: client, isReturning: isReturning, tell: tell)
    }

    // MARK: Locks

    /// Takes a lock, or waits for it. At most one round trip to Redis when it is free.
    package func acquireLock(_ request: LockRequest, completion: Completion<LockAnswer>) -> PendingCall? {
        var request = request
        if isGoingDown { request.wait = 0 }
        if quorum != nil, request.mode != .exclusive {
            completion(.failed(.notOnQuorum("a lock that several hold")))
            return nil
        }
        if runtime.keys.isTaken(lockName: request.name.text) {
            completion(.failed(.ownKey(request.name, runtime.keys)))
            return nil
        }
        return .lock(provider.acquire(request, completion: completion))
    }

    /// Takes several locks, or none: one after another, in the order of their names.
    package func acquireLocks(_ request: JointLockRequest, completion: Completion<JointLockAnswer>) -> PendingCall? {
        if let wrong = quorum == nil ? JointAcquisition.violation(in: request) : .notOnQuorum("taking several locks at once") {
            completion(.failed(wrong))
            return nil
        }
        if let name = request.names.first(where: { runtime.keys.isTaken(lockName: $0.text) }) {
            completion(.failed(.ownKey(name, runtime.keys)))
            return nil
        }
        var request = request
        request.template.wait = isGoingDown ? 0 : min(request.template.wait, longestWait)
        lastJointID += 1
        let id = lastJointID
        let acquisition = JointAcquisition(request, locks: locks, time: runtime.time, completion: completion)
        joint[id] = acquisition
        acquisition.onEnd = { [unowned self] in joint[id] = nil }
        acquisition.takeNext()
        return .locks(id)
    }

    /// Looks after a lease that was granted just now.
    /// - Parameters:
    ///   - isLinked: the lease is extended at a third of its length for as long as it is followed.
    ///   - client: who follows a lease once, however often it gets it.
    ///   - onEnd: called once, and not before this returns: when the lease is lost, at its own deadline at the latest, or
    ///     released. Not after `unfollowLease`. It must not block. One closure may serve many leases.
    /// - Returns: by which it is no longer followed.
    package func followLease(
        _ lease: Lease, isLinked: Bool, client: AnyObject? = nil, onEnd: @escaping (LeaseEnd) -> Void
    ) -> Result<LeaseFollower, InterlockError> {
        guard quorum == nil else { return .failure(.notOnQuorum("a lease that the sidecar looks after")) }
        guard !locks.keeper.isClosed else { return .failure(.stopped) }
        guard !locks.keeper.isFull(forLinked: isLinked) else { return .failure(.tooManyFollowed) }
        return .success(
            LeaseFollower(
                id: locks.keeper.follow(
                    lease, isLinked: isLinked, client: client.map { ObjectIdentifier($0) }, onEnd: onEnd)))
    }

    /// Lets a lease lapse that was extended, and tells of its loss no more.
    package func unfollowLease(_ follower: LeaseFollower) {
        locks.keeper.unfollow(follower.id)
    }

    /// Releases a lease that is followed, when it is still held: its holder has gone. One whose owner chose the token is
    /// left to lapse, and so is one that others are linked to: a retry may hold that very lease.
    package func releaseFollowedLease(_ follower: LeaseFollower) {
        guard let (name, token, ttl) = locks.keeper.leaseToRelease(of: follower.id) else {
            return locks.keeper.unfollow(follower.id)
        }
        locks.keeper.released(name, token: token)
        locks.leases.ended(name, token: token, .released, now: runtime.time.now())
        locks.release(name, token: token, ttl: ttl)
    }

    /// Extends a lease to `ttl` milliseconds from now.
    /// - Parameter fence: extends only the lease with this fence, not a later one of the same owner; `nil` for
    ///   whichever the token has.
    package func renewLock(
        _ name: ResourceName, token: String, ttl: Int64, fence: Int64? = nil, completion: Completion<RenewAnswer>
    ) {
        provider.renew(name: name, token: token, ttl: ttl, fence: fence, completion: completion)
    }

    /// Ends a lease.
    /// - Parameter fence: see `renewLock`.
    package func releaseLock(
        _ name: ResourceName, token: String, fence: Int64? = nil, completion: Completion<ReleaseAnswer>
    ) {
        provider.release(name: name, token: token, fence: fence, completion: completion)
    }

    /// Handles another sidecar's report that a lock was broken.
    func lockBroken(_ name: String) { provider.broken(name) }

    /// Takes a lock from whoever has it. `by` is told to the fleet; with a `fence`, only while the grant that it was given to holds the lock.
    package func breakLock(
        _ name: ResourceName, by: String, fence: Int64? = nil, completion: Completion<ReleaseAnswer>
    ) {
        provider.breakLock(name: name, by: by, fence: fence, completion: completion)
    }

    /// What is known of a lock; `nil`: nobody holds it or waits for it.
    package func inspectLock(
        _ name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>
    ) {
        provider.inspect(name: name, completion: completion)
    }

    /// What is known of each of these locks, in its place; `nil`: nobody holds it or waits for it. One command for fifty, on a cluster
    /// one for each.
    package func inspectLocks(
        _ names: [ResourceName], completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void
    ) {
        provider.inspect(names: names, completion: completion)
    }

    /// One step through the locks that are held: `count`, 1…1000, bounds the step's work and is no promise of its size.
    package func listLocks(
        cursor: String, matching glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>
    ) {
        provider.list(cursor: cursor, glob: glob, count: max(1, min(1000, count)), completion: completion)
    }

    /// The last grants through this sidecar, the newest first. No Redis.
    package func grants(of name: ResourceName?) -> [GrantRecord] {
        history.list(of: name?.text, now: runtime.time.now(), wallTime: runtime.wallTime)
    }

    // MARK: Limits

    /// A configured service, for many calls; hold it no longer than `servicesVersion` stays the same.
    package func service(_ name: String) -> Result<ServiceReference, InterlockError> {
        guard let service = services[name] else {
            let hint = "see BREAKER.LIST for those that are"
            return .failure(InterlockError(.unknownService, "no service \"\(Excerpt(name))\" is configured; \(hint)"))
        }
        return .success(ServiceReference(service: service))
    }

    /// Calls `body` with the named service, or `fail` if it is not configured.
    private func withService(_ name: String, fail: (InterlockError) -> Void, _ body: (GuardedService) -> Void) {
        switch service(name) {
        case .success(let reference): body(reference.service)
        case .failure(let error): fail(error)
        }
    }

    /// Whether an answer that a task on the event loop has at once is to wait for `pause`: the task goes on where it is, and one that asks
    /// again and again would let nothing else happen on the loop.
    func isPauseDue() -> Bool {
        answersAtOnce += 1
        guard answersAtOnce == Self.mostAnswersAtOnce else { return false }
        answersAtOnce = 0
        return true
    }

    /// Long enough that the loop comes round.
    static let pause = TimeAmount.microseconds(50)
    private static let mostAnswersAtOnce = 64

    /// The time as this coordinator reads it; one reading may serve all calls that came at once.
    package func now() -> Instant { runtime.time.now() }

    /// Takes `cost` from all limits of a service that apply, or from none.
    /// - Parameters:
    ///   - count: how many equal calls are made at once; each is answered apart, under tags that follow one another. More
    ///     than one only without a wait.
    ///   - waitMilliseconds: how long to wait for a turn; 0: not at all.
    package func take(
        _ reference: ServiceReference, count: Int = 1, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<TakeAnswer>
    ) -> PendingCall? {
        if subject == nil, let demand = reference.service.subjectDemand {
            for call in 0..<count { completion(.failed(demand), offset: call) }
            return nil
        }
        let wait = isGoingDown ? 0 : min(waitMilliseconds, longestWait)
        let id = executor.take(
            reference.service, count: count, cost: cost, subject: subject, waitMilliseconds: wait, now: now,
            caller: .take(completion))
        return wait > 0 ? .limit(service: reference.service.name, id) : nil
    }

    /// What a call of cost 1 would be told, taking nothing.
    package func peek(service name: String, subject: String?, completion: Completion<TakeAnswer>) {
        withService(name, fail: { completion(.failed($0)) }) {
            executor.peek($0, subject: subject, completion: completion)
        }
    }

    /// Where each limit stands that applies to a call, in the order of the definition; takes nothing.
    package func listLimits(
        service name: String, subject: String?, completion: Completion<Result<[LimitStanding], InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.list($0, subject: subject) { completion($0) }
        }
    }

    /// Takes from a rate that the caller names, as `CL.THROTTLE` of redis-cell does. Unavailable while Redis is away.
    package func throttle(
        _ request: ThrottleRequest, completion: Completion<Result<ThrottleAnswer, InterlockError>>
    ) {
        executor.throttle(request, completion: completion)
    }

    // MARK: Permits and breakers

    /// Asks a service's breaker, its limits and its places in this sidecar in one step. An open breaker answers without Redis.
    /// - Parameter waitMilliseconds: how long to wait at most: at a limit, for a place, and through a pause that a limit made; 0:
    ///   not at all.
    package func acquirePermit(
        _ reference: ServiceReference, cost: Int64, subject: String?, waitMilliseconds: Int64, now: Instant,
        completion: Completion<PermitAnswer>
    ) -> PendingCall? {
        if subject == nil, let demand = reference.service.subjectDemand {
            completion(.failed(demand))
            return nil
        }
        let wait = isGoingDown ? 0 : min(waitMilliseconds, longestWait)
        return executor.acquirePermit(
            reference.service, cost: cost, subject: subject, waitMilliseconds: wait, now: now, completion: completion
        ).map { .permit($0) }
    }

    /// Whether there is something to take.
    package func hasLimits(_ reference: ServiceReference) -> Bool { !reference.service.gate.definition.limits.isEmpty }

    /// Why a call may not be made now of which nobody will report the outcome; `nil`: as far as the breaker goes it may. While it is
    /// half-open such calls pass: a trial that nobody reports would decide nothing. No Redis.
    /// - Returns: the breaker's state, and in how many milliseconds it may be over; -1: nobody knows.
    package func refusalByBreaker(
        of reference: ServiceReference, now: Instant
    ) -> (state: BreakerSnapshot.State, retryAfter: Int64)? {
        // While it is half-open it refuses those who find no trial left, and these take none.
        let state = reference.service.gate.breaker.actingState(now: now)
        guard state == .open, case .refuse(let retryAfter) = reference.service.gate.breaker.admission(now: now) else {
            return nil
        }
        return (state, retryAfter)
    }

    /// Reports the outcome of a permitted call; answers with the breaker's state after it.
    package func reportPermit(
        service name: String, permit: PermitID, _ report: OutcomeReport,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.report($0, permit: permit, report, completion: completion)
        }
    }

    /// A service's breaker as this sidecar sees it. No Redis.
    package func breaker(service name: String) -> Result<BreakerStatus, InterlockError> {
        service(name).map { executor.status(of: $0.service) }
    }

    /// Why a service's breaker is open; `local`: it is so for this sidecar alone.
    package func causeOfBreaker(ofService name: String) -> String {
        guard let service = services[name] else { return "" }
        let fleet = executor.status(of: service).fleet
        return fleet.state == .closed && fleet.forced == nil ? "local" : fleet.cause
    }

    /// All services' breakers, by name. No Redis.
    package func allBreakers() -> [BreakerStatus] {
        servicesInOrder.map { executor.status(of: $0) }
    }

    /// Forces a breaker's state for the whole fleet; `nil`: back to automatic, closed.
    /// - Parameters:
    ///   - milliseconds: after so long it goes back to automatic; `nil`: it does not by itself.
    ///   - reason: in words for people, at most `BreakerSnapshot.longestReason` bytes.
    package func forceBreaker(
        service name: String, to state: BreakerSnapshot.Forced?, forMilliseconds milliseconds: Int64? = nil,
        reason: String = "", by: String, completion: Completion<Result<BreakerStatus, InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.force($0, to: state, forMilliseconds: milliseconds, reason: reason, by: by, completion: completion)
        }
    }

    /// Tells a service's breaker what its outage monitor has found; answers with the breaker's state after it.
    ///
    /// `.down` must be said again with every further failed probe: an outage that nobody speaks of is over after
    /// `ProbeSettings.outageLapse`. `.up` is said again until the answer is no longer `.open`; said too late, when the
    /// breaker has changed meanwhile, it does nothing. While Redis is away both hold for this sidecar alone.
    package func reportOutage(
        service name: String, _ finding: OutageFinding,
        completion: Completion<Result<BreakerSnapshot.State, InterlockError>>
    ) {
        withService(name, fail: { completion(.failure($0)) }) {
            executor.outage($0, finding, completion: completion)
        }
    }

    /// A service's definition, if it is configured.
    package func definition(ofService name: String) -> ServiceDefinition? {
        services[name]?.gate.definition
    }

    /// The live sidecars, by ID, with what each publishes of itself.
    package func listFleet(completion: Completion<Result<[FleetMember], InterlockError>>) {
        fleet.list { completion($0.mapError(InterlockError.init)) }
    }

    // MARK: Giving up, and following

    /// Gives up a call: its completion is not called any more, and what it is granted meanwhile is given back.
    package func cancel(_ call: PendingCall) {
        switch call {
        case .lock(let id):
            provider.cancel(id)
        case .locks(let id):
            joint.removeValue(forKey: id)?.cancel()
        case .limit(let name, let id):
            guard let service = services[name] else { return }
            executor.cancelTake(id, of: service)
        case .permit(let number):
            executor.cancelPermit(number)
        }
    }

    /// Calls `follower` with each event as it was published, and as it was read unless its type is not known here, until `unfollow`. It
    /// must not block.
    package func follow(
        _ follower: @escaping (_ message: EventMessage, _ event: InterlockEvent<EventPayload>?) -> Void
    ) -> UInt64 {
        feed.add(follower)
    }

    package func unfollow(_ id: UInt64) {
        feed.remove(id)
    }
}
