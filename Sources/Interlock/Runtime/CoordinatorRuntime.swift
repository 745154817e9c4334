internal import InterlockCore
internal import Logging
internal import NIOCore
internal import RedisClient

/// The state that the parts of a coordinator share. Confined to its event loop.
final class CoordinatorRuntime {
    /// The ID of this sidecar in the fleet.
    let id: String
    let eventLoop: any EventLoop
    /// The source of further connections to Redis.
    let topology: RedisTopology
    let pipeline: any RedisSender
    let keys: KeySpace
    let database: Int
    let host: String
    /// The settings of its connections to Redis.
    let redis: RedisConfiguration
    /// The name of its Redis, without credentials.
    let redisName: String
    /// The hosts that can share the Redis.
    let redisScope: RedisScope
    let time: TimeSource
    let wallClock: WallClock
    /// The offset from this coordinator's clock to the wall clock, in nanoseconds.
    private var wallOffset = Int64.min
    let processID: Int32
    /// The environment for further connections to Redis.
    let redisEnvironment: RedisEnvironment
    let deadlines: Deadlines
    let logger: Logger
    let metrics: CoordinatorMetrics
    var entropy: EntropyPool
    /// The maximum time, in milliseconds, that a caller waits for Redis.
    let timeoutMilliseconds: Int64
    /// The minimum number of sidecars to assume.
    private let minimumSidecars: Int
    /// The number of sidecars that share the limits, and a majority of which must agree on an outage. While Redis is
    /// unreachable, each sidecar grants only its quota of a limit.
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
        // The host is the default label of owners, so it must not be a reserved label.
        host = LockMode.isReserved(label: configuration.host) ? "host-" + configuration.host : configuration.host
        redisName = configuration.redis.displayName
        redisScope = RedisScope(configuration)
        var redis = Self.named(configuration.redis, id: id, prefix: configuration.prefix)
        redis.serverTimeDelay = Self.fenceTolerance
        self.redis = redis
        topology = RedisTopology(configuration: redis, environment: redisEnvironment)
        pipeline = topology.makeSender()
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

    /// The tolerance by which a lock's fences may trail the clock of Redis. Scripts read the clock themselves for this
    /// long after a connection is first verified. After that, fences that a previous primary granted, and that this
    /// server may have missed in a failover, trail its clock by more than the tolerance.
    static let fenceTolerance = Duration.milliseconds(100)

    /// Returns the wall-clock time of an instant, as Unix time in milliseconds. Returns the same time for the same
    /// instant unless the wall clock is set.
    func wallTime(of instant: Instant) -> Int64 {
        let offset = wallClock.milliseconds() * 1_000_000 - time.now().nanoseconds
        // The two clocks are read in turn, and the wall clock only to the millisecond.
        if wallOffset == .min || (offset - wallOffset).magnitude > Self.clockPrecision { wallOffset = offset }
        return (instant.nanoseconds + wallOffset) / 1_000_000
    }

    private static let clockPrecision: Int64.Magnitude = 20_000_000

    /// Returns a server's configuration with this sidecar's client name, which `CLIENT LIST` shows, and with the check
    /// by which a peer that cannot run scripts counts as down.
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

    /// Returns 64 unpredictable bits.
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
    /// Creates the scope of a coordinator's servers. Redis behind Sentinels and a cluster always count as reachable
    /// over the network, because their servers announce their own addresses.
    init(_ configuration: InterlockConfiguration) {
        let addresses = ([configuration.redis] + configuration.quorum).map(\.address)
        if configuration.hasEmbeddedRedis {
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
