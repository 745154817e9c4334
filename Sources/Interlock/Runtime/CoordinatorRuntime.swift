internal import InterlockCore
internal import Logging
internal import NIOCore
internal import RedisClient

/// The state that the parts of a coordinator share. Confined to its event loop.
final class CoordinatorRuntime {
    /// The ID of this sidecar in the fleet.
    let id: String
    let eventLoop: any EventLoop
    /// The Redis of the configuration, from which further connections are made.
    let topology: RedisTopology
    let pipeline: any RedisSender
    let keys: KeySpace
    let database: Int
    let host: String
    /// The settings of the connections to Redis.
    let redis: RedisConfiguration
    /// The address of Redis, without credentials.
    let redisName: String
    /// The hosts that can reach Redis.
    let redisScope: RedisScope
    let time: TimeSource
    let wallClock: WallClock
    /// The offset from this coordinator's clock to the wall clock; the minimum of `Int64` before the first use.
    private var wallOffsetNanoseconds = Int64.min
    let processID: Int32
    /// The environment for further connections to Redis.
    let redisEnvironment: RedisEnvironment
    let deadlines: Deadlines
    let logger: Logger
    let metrics: CoordinatorMetrics
    var entropy: EntropyPool
    /// The maximum time, in milliseconds, that a caller waits for Redis.
    let timeoutMilliseconds: Int64
    /// The minimum fleet size to assume.
    private let minimumSidecarCount: Int
    /// The number of sidecars that share the limits, and a majority of which must agree on an outage. While Redis is
    /// unreachable, each sidecar grants only its quota of a limit.
    private(set) var sidecarCount: Int

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
        minimumSidecarCount = configuration.fleetSize
        sidecarCount = configuration.fleetSize
    }

    /// Updates `sidecarCount` from the number of live sidecars.
    func fleetSizeChanged(to size: Int) {
        sidecarCount = min(max(minimumSidecarCount, size), InterlockConfiguration.fleetSizeRange.upperBound)
    }

    /// The tolerance by which a lock's fences may trail the clock of Redis. For this long after the first proof that a
    /// server is a primary, commands do not carry its time, and scripts read the clock. Later, any fences that a
    /// previous primary granted and this server missed in a failover trail its clock by more than the tolerance.
    static let fenceTolerance = Duration.milliseconds(100)

    /// Returns the wall-clock time of an instant, as Unix time in milliseconds. Returns the same time for the same
    /// instant unless the wall clock is set.
    func wallTimeMilliseconds(of instant: Instant) -> Int64 {
        let offsetNanoseconds = wallClock.milliseconds() * 1_000_000 - time.now().nanoseconds
        // The offset varies a little, because the clocks are read one after the other, and the wall clock only to the
        // millisecond.
        if wallOffsetNanoseconds == .min
            || (offsetNanoseconds - wallOffsetNanoseconds).magnitude > Self.clockPrecisionNanoseconds
        {
            wallOffsetNanoseconds = offsetNanoseconds
        }
        return (instant.nanoseconds + wallOffsetNanoseconds) / 1_000_000
    }

    /// The maximum change of the offset that is not a change of the wall clock.
    private static let clockPrecisionNanoseconds: Int64.Magnitude = 20_000_000

    /// Returns a server's configuration with this sidecar's client name, which `CLIENT LIST` shows, and with the login
    /// check that rejects a peer that cannot run scripts.
    static func named(_ server: RedisConfiguration, id: String, prefix: String) -> RedisConfiguration {
        var server = server
        server.clientName = "interlock/\(id)"
        server.peerCheckKey = prefix + "login"
        return server
    }
}

/// Random bits for tokens and permits. The pool draws them from its source in blocks, so that one system call serves
/// many tokens.
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

    /// Returns 128 unpredictable bits.
    mutating func drawPair() -> (UInt64, UInt64) { (next(), next()) }
}

extension RedisScope {
    /// Creates the scope of a coordinator's servers. A cluster, and servers behind Sentinels, always count as reachable
    /// over the network, because they announce their own addresses.
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
