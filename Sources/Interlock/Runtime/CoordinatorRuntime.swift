internal import Hiredis
internal import InterlockCore
internal import Logging
internal import NIOCore

/// What the coordinator's rooms share. Confined to its event loop.
final class CoordinatorRuntime {
    /// This sidecar's ID in the fleet.
    let id: String
    let eventLoop: any EventLoop
    let pipeline: RedisPipeline
    let keys: KeySpace
    let database: Int
    let host: String
    /// Which Redis, without credentials.
    let redisName: String
    let time: TimeSource
    let wallClock: WallClock
    let processID: Int32
    /// What further connections to Redis are made with.
    let redisEnvironment: RedisEnvironment
    let deadlines: Deadlines
    let logger: Logger
    let metrics: CoordinatorMetrics
    var entropy: EntropyPool
    /// How long a caller may wait for Redis, in milliseconds.
    let timeoutMilliseconds: Int64

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
        keys = KeySpace(prefix: configuration.prefix, lockKeyPrefix: configuration.locks.keyPrefix)
        database = configuration.redis.database
        // Owners are called so who give no label of their own.
        host = LockMode.isReserved(label: configuration.host) ? "host-" + configuration.host : configuration.host
        redisName = configuration.redis.displayName
        pipeline = RedisPipeline(configuration: configuration.redis, environment: redisEnvironment)
        deadlines = Deadlines(eventLoop: eventLoop, time: time)
        metrics = CoordinatorMetrics()
        timeoutMilliseconds = configuration.redis.commandTimeout.wholeMilliseconds
    }
}
