internal import InterlockCore
internal import Logging
internal import NIOCore
internal import RedisClient

/// What the parts of a coordinator share. Confined to its event loop.
final class CoordinatorRuntime {
    /// This sidecar's ID in the fleet.
    let id: String
    let eventLoop: any EventLoop
    /// Makes further connections to Redis.
    let topology: RedisTopology
    let pipeline: any RedisSender
    let keys: KeySpace
    let database: Int
    let host: String
    /// How its connections to Redis are made.
    let redis: RedisConfiguration
    /// Which Redis, without credentials.
    let redisName: String
    /// The hosts that can share the Redis.
    let redisScope: RedisScope
    let time: TimeSource
    let wallClock: WallClock
    /// What people's clocks are ahead of this coordinator's, in nanoseconds.
    private var wallOffset = Int64.min
    let processID: Int32
    /// What further connections to Redis are made with.
    let redisEnvironment: RedisEnvironment
    let deadlines: Deadlines
    let logger: Logger
    let metrics: CoordinatorMetrics
    var entropy: EntropyPool
    /// How long a caller may wait for Redis, in milliseconds.
    let timeoutMilliseconds: Int64
    /// The minimum number of sidecars to assume.
    private let minimumSidecars: Int
    /// The number of sidecars that share the limits, and of which outages need a majority. While Redis is unreachable,
    /// each sidecar grants only its quota of a limit.
    private(set) var sidecars: Int

    init(
        configuration: InterlockConfiguration, environment: CoordinatorEnvironment
    ) {
        entropy = EntropyPool(source: environment.random)
        id = String(OwnerToken.hexadecimal(entropy.next()).prefix(12))
        eventLoop = environment.eventLoop
        time = environment.clock
        wallClock = environment.wallClock
        processID = environment.processID
        redisEnvironment = environment.redis
        logger = environment.logger
        database = configuration.redis.database
        // Owners are called so who give no label of their own.
        host = LockMode.isReserved(label: configuration.host) ? "host-" + configuration.host : configuration.host
        redisName = configuration.redis.displayName
        redisScope = RedisScope(configuration)
        var redis = Self.named(configuration.redis, id: id, prefix: configuration.prefix)
        redis.knowsTimeAfter = Self.clockDelay
        self.redis = redis
        topology = RedisTopology(configuration: redis, environment: redisEnvironment)
        pipeline = topology.sender()
        keys = KeySpace(
            prefix: configuration.prefix, lockKeyPrefix: configuration.locks.keyPrefix, isOnCluster: topology.cluster != nil)
        deadlines = Deadlines(eventLoop: eventLoop, time: time)
        metrics = CoordinatorMetrics()
        timeoutMilliseconds = configuration.redis.commandTimeout.wholeMilliseconds
        minimumSidecars = configuration.fleetSize
        sidecars = configuration.fleetSize
    }

    /// Updates `sidecars` from the number of live sidecars.
    func fleetSizeChanged(to size: Int) {
        sidecars = min(max(minimumSidecars, size), InterlockConfiguration.fleetSizes.upperBound)
    }

    /// How far a lock's fences may be behind Redis' clock. For so long after a connection's first proof, scripts look at the clock themselves:
    /// what a server before this one granted, which this one may not know of, is behind its clock by more than that from then on.
    static let clockDelay = Duration.milliseconds(100)

    /// What people's clocks show at an instant, in milliseconds since 1970: the same each time, until those are set.
    func wallTime(of instant: Instant) -> Int64 {
        let offset = wallClock.milliseconds() * 1_000_000 - time.now().nanoseconds
        // Both are read one after the other, and one to the millisecond.
        if wallOffset == .min || (offset - wallOffset).magnitude > Self.clockPrecision { wallOffset = offset }
        return (instant.nanoseconds + wallOffset) / 1_000_000
    }

    private static let clockPrecision: Int64.Magnitude = 20_000_000

    /// Returns the configuration with which a coordinator connects to a server: `CLIENT LIST` there shows the sidecar's
    /// name, and a peer that cannot run scripts counts as down.
    static func named(_ server: RedisConfiguration, id: String, prefix: String) -> RedisConfiguration {
        var server = server
        server.clientName = "interlock/\(id)"
        server.peerCheckKey = prefix + "login"
        return server
    }
}

/// Random bits for tokens and permits, drawn from their source in blocks: one system call for many tokens.
struct EntropyPool: RandomNumberGenerator {
    private static let blockSize = 512

    private let source: RandomSource
    private var block = [UInt64](repeating: 0, count: Self.blockSize)
    private var position = Self.blockSize

    init(source: RandomSource) {
        self.source = source
    }

    /// 64 bits that nobody can guess.
    mutating func next() -> UInt64 {
        if position == Self.blockSize {
            source.fill(&block)
            position = 0
        }
        defer { position += 1 }
        return block[position]
    }

    mutating func drawPair() -> (UInt64, UInt64) { (next(), next()) }
}

extension RedisScope {
    /// The scope of a coordinator's servers. Redis behind Sentinels, and a cluster, always count as reachable by the
    /// network, because their servers announce their own addresses.
    init(_ configuration: InterlockConfiguration) {
        let addresses = ([configuration.redis] + configuration.quorum).map(\.address)
        if configuration.hasPrivateRedis {
            self = .host
        } else {
            self = addresses.allSatisfy(Self.isLocal) ? .loopback : .network
        }
    }

    private static func isLocal(_ address: RedisConfiguration.Address) -> Bool {
        switch address {
        case .unixSocket: true
        case .host(let host, _): ["localhost", "::1"].contains(host.lowercased()) || host.hasPrefix("127.")
        case .primary, .cluster: false
        }
    }
}
