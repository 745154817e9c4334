import Interlock
import InterlockCore
import InterlockJudge
import Logging
import NIOCore
import RedisClient
import SimulatedRedis

/// A fleet of real sidecars and their Redis servers, controlled by a test. Nothing happens unless the test requests it,
/// and time is simulated.
final class Stage {
    /// A call through a sidecar, and its result once it has arrived.
    final class Call<Value> {
        fileprivate(set) var result: Value?
        /// The number of times that a result arrived, which must be 1.
        fileprivate(set) var resultCount = 0
        /// The time at which the result arrived, in milliseconds since the stage began.
        fileprivate(set) var endedAtMilliseconds: Int64?
        fileprivate(set) var pending: PendingCall?
    }

    private let timeline = WorldTimeline()
    private let machines: RedisMachines
    let quorum: [RedisHost]
    /// The single Redis server, or the current primary.
    var redis: RedisHost { machines.host(of: "") }
    private(set) var sidecars: [SidecarHost] = []

    /// Creates a stage and waits until everything is connected.
    ///
    /// - Parameters:
    ///   - redisMilliseconds: the one-way delay between each sidecar and each server.
    init(
        sidecars count: Int = 1, quorum servers: Int = 0, topology: WorldTopology = .single, services: [ServiceDefinition] = [],
        domains: DomainSettings = DomainSettings(), locks: LockSettings = LockSettings(),
        redisMilliseconds: Int64 = 1, maximumPending: Int = 100_000, seed: UInt64 = 1
    ) {
        var random = SeededRandom(seed: seed)
        machines = RedisMachines(
            topology, timeline: timeline, delay: .microseconds(200)...(.microseconds(600)), driftPerBillion: 0,
            random: SeededRandom(seed: ~seed))
        quorum = (0..<servers).map { [timeline] in RedisHost(name: "quorum-\($0)", timeline: timeline, driftPerBillion: 0) }
        if case .single(let host) = machines { host.server.acknowledgingReplicaCount = 1 }
        let hosts = machines.hosts + quorum
        func configuration(at address: RedisConfiguration.Address) -> RedisConfiguration {
            var configuration = RedisConfiguration(address: address)
            configuration.reconnectDelay = .milliseconds(20)...(.milliseconds(500))
            configuration.maximumPending = maximumPending
            return configuration
        }
        for number in 0..<count {
            sidecars.append(
                SidecarHost(
                    number: number,
                    configuration: InterlockConfiguration(
                        redis: configuration(at: machines.address),
                        quorum: quorum.map { configuration(at: .host($0.name, port: 6379)) }, locks: locks, services: services,
                        domains: domains, host: "host-\(number)"),
                    servers: hosts,
                    paths: hosts.map { _ in
                        Path(delay: .milliseconds(redisMilliseconds)...(.milliseconds(redisMilliseconds)), random: random.split())
                    },
                    upstreams: ([], SimulatedHTTPDialer(timeline: timeline) { _ in nil }), timeline: timeline, driftPerBillion: 0,
                    random: random.split(),
                    logger: Logger(label: "stage") { _ in SwiftLogNoOpLogHandler() }))
        }
        machines.start()
        for sidecar in sidecars { sidecar.start() }
        run(milliseconds: 1000)
    }

    deinit {
        for sidecar in sidecars { sidecar.kill() }
    }

    // MARK: Time

    /// The time since the stage began, in milliseconds.
    var milliseconds: Int64 { (timeline.now - WorldTimeline.beginning) / 1_000_000 }

    /// Lets this much time pass.
    func run(milliseconds: Int64) {
        timeline.run(until: timeline.now + .milliseconds(milliseconds))
    }

    /// Lets time pass until the condition holds, for at most this many milliseconds. Returns whether it holds.
    @discardableResult
    func run(upToMilliseconds milliseconds: Int64, until condition: () -> Bool) -> Bool {
        let end = timeline.now + .milliseconds(milliseconds)
        while !condition(), timeline.now < end { run(milliseconds: 1) }
        return condition()
    }

    /// Runs `action` after this many milliseconds.
    func after(milliseconds: Int64, _ action: @escaping () -> Void) {
        timeline.schedule(in: .milliseconds(milliseconds), action)
    }

    // MARK: Calls

    /// Starts a call through one sidecar.
    func startCall<Value>(
        _ sidecar: Int, _ start: @escaping (LoopBoundCoordinator, Completion<Value>) -> PendingCall?
    ) -> Call<Value> {
        let call = Call<Value>()
        sidecars[sidecar].call { [unowned self] coordinator in
            call.pending = start(
                coordinator,
                Completion { [unowned self] _, result in
                    call.result = result
                    call.resultCount += 1
                    call.endedAtMilliseconds = milliseconds
                    return true
                })
        }
        return call
    }

    /// Lets up to a minute pass until the result of a call arrives. Returns it; `nil` if it does not arrive.
    func result<Value>(of call: Call<Value>) -> Value? {
        run(upToMilliseconds: 60_000) { call.result != nil }
        return call.result
    }

    /// Cancels a call.
    func cancel<Value>(_ call: Call<Value>, of sidecar: Int) {
        guard let pending = call.pending else { return }
        sidecars[sidecar].call { $0.cancel(pending) }
    }

    func acquire(_ request: LockRequest, through sidecar: Int = 0) -> Call<LockResult> {
        startCall(sidecar) { $0.acquireLock(request, completion: $1) }
    }

    func release(_ lease: Lease, fence: Int64? = nil, through sidecar: Int = 0) -> Call<ReleaseResult> {
        startCall(sidecar) { coordinator, completion in
            guard let name = try? ResourceName(lease.name) else { return nil }
            coordinator.releaseLock(name, token: lease.token, fence: fence, completion: completion)
            return nil
        }
    }

    func renew(
        _ lease: Lease, ttlMilliseconds: Int64, fence: Int64? = nil, through sidecar: Int = 0
    ) -> Call<RenewResult> {
        startCall(sidecar) { coordinator, completion in
            guard let name = try? ResourceName(lease.name) else { return nil }
            coordinator.renewLock(
                name, token: lease.token, ttlMilliseconds: ttlMilliseconds, fence: fence, completion: completion)
            return nil
        }
    }

    func take(
        _ service: String, cost: Int64 = 1, subject: String? = nil, waitMilliseconds: Int64 = 0,
        through sidecar: Int = 0
    ) -> Call<TakeResult> {
        startCall(sidecar) { coordinator, completion in
            guard case .success(let reference) = coordinator.service(service) else { return nil }
            return coordinator.take(
                reference, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: coordinator.now(),
                completion: completion)
        }
    }

    func permit(
        _ service: String, subject: String? = nil, waitMilliseconds: Int64 = 0, through sidecar: Int = 0
    ) -> Call<PermitResult> {
        startCall(sidecar) { coordinator, completion in
            guard case .success(let reference) = coordinator.service(service) else { return nil }
            return coordinator.acquirePermit(
                reference, cost: 1, subject: subject, waitMilliseconds: waitMilliseconds, now: coordinator.now(),
                completion: completion)
        }
    }

    func report(
        _ permit: PermitID, of service: String, _ report: OutcomeReport, through sidecar: Int = 0
    ) -> Call<Result<BreakerSnapshot.State, InterlockError>> {
        startCall(sidecar) { coordinator, completion in
            coordinator.reportPermit(service: service, permit: permit, report, completion: completion)
            return nil
        }
    }

    func force(
        _ service: String, to state: BreakerSnapshot.Forced?, through sidecar: Int = 0
    ) -> Call<Result<BreakerStatus, InterlockError>> {
        startCall(sidecar) { coordinator, completion in
            coordinator.forceBreaker(service: service, to: state, reason: "", by: "test", completion: completion)
            return nil
        }
    }

    func reportOutage(
        _ service: String, _ finding: OutageFinding, through sidecar: Int = 0
    ) -> Call<Result<BreakerSnapshot.State, InterlockError>> {
        startCall(sidecar) { coordinator, completion in
            coordinator.reportOutage(service: service, finding, completion: completion)
            return nil
        }
    }

    /// Returns the status of a service's breaker as one sidecar sees it.
    func breaker(_ service: String, at sidecar: Int = 0) -> BreakerStatus? {
        var status: BreakerStatus?
        sidecars[sidecar].call { status = try? $0.breaker(service: service).get() }
        return status
    }

    /// Returns the status that one sidecar reports.
    func status(of sidecar: Int = 0) -> CoordinatorStatus? {
        var status: CoordinatorStatus?
        sidecars[sidecar].call { status = $0.status }
        return status
    }

    // MARK: RESP API

    /// A client's connection to a sidecar's RESP API, and the replies that it receives.
    final class Client {
        private let wire: Wire
        private var reader = ListenerReplyReader()
        private(set) var isOpen = true

        fileprivate init(wire: Wire) {
            self.wire = wire
            wire.near.onBytes = { [unowned self] in reader.append($0.readableBytesView) }
            wire.near.onEnd = { [unowned self] in isOpen = false }
        }

        /// Sends commands in one write. Each character is one byte (Latin-1).
        func send(_ commands: [[String]]) {
            let bytes = commands.flatMap { words in
                RequestEncoder.encode(words.map { $0.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) } })
            }
            wire.send(ByteBuffer(bytes: bytes), to: wire.far)
        }

        /// Closes the connection, even if commands are pending.
        func close() {
            isOpen = false
            wire.close(to: wire.far)
        }

        /// Returns everything received since the last call, in order. A subscription's confirmation counts as its
        /// reply.
        func replies() throws -> [RedisReply] {
            var replies: [RedisReply] = []
            while let message = try reader.next() {
                switch message {
                case .reply(let reply): replies.append(reply)
                case .push(let parts): replies.append(.array(parts))
                }
            }
            return replies
        }
    }

    /// Opens a connection to a sidecar's RESP API.
    func connect(to sidecar: Int) -> Client {
        let path = Path(delay: .microseconds(50)...(.microseconds(50)), random: SeededRandom(seed: 1))
        let wire = Wire(timeline: timeline, path: path)
        let client = Client(wire: wire)
        _ = sidecars[sidecar].accept(wire)
        return client
    }

    // MARK: Redis

    /// Sends a command to Redis. Returns the reply in RESP, with spaces instead of line ends.
    @discardableResult
    func cli(_ words: String..., on host: RedisHost? = nil) -> String {
        var reply: [UInt8] = []
        let connection = (host ?? redis).server.connect { reply += $0 }
        connection.receive(RequestEncoder.encode(words))
        connection.close()
        return String(decoding: reply, as: UTF8.self).split(separator: "\r\n").joined(separator: " ")
    }

    /// The primary with its replicas and Sentinels; `nil` in other topologies.
    var sentinels: SentinelGroup? { if case .sentinels(let group) = machines { group } else { nil } }

    /// The cluster; `nil` in other topologies.
    var cluster: ClusterGroup? { if case .cluster(let group) = machines { group } else { nil } }

    /// Returns the path between a sidecar and one of the machines of Redis.
    func path(of sidecar: Int, to host: RedisHost) -> Path {
        let index = machines.hosts.firstIndex { $0 === host } ?? 0
        return sidecars[sidecar].paths[index]
    }

    /// Returns the path between a sidecar and a server of the quorum, or the single Redis server if `server` is `nil`.
    func path(of sidecar: Int, toQuorum server: Int? = nil) -> Path {
        sidecars[sidecar].paths[server.map { $0 + 1 } ?? 0]
    }
}

extension LockResult {
    var lease: Lease? { if case .granted(let lease) = self { lease } else { nil } }
    var isHeld: Bool { if case .held = self { true } else { false } }
}

extension TakeResult {
    var isAllowed: Bool { if case .decided(let decision) = self { decision.isAllowed } else { false } }
}

extension PermitResult {
    var permit: PermitID? { if case .granted(let id, _) = self { id } else { nil } }
}
