public import Hiredis
public import InterlockCore

/// What a coordinator needs to know: which Redis, and which locks and services it looks after.
public struct InterlockConfiguration: Sendable {
    public var redis: RedisConfiguration
    /// Independent servers of which a majority grants each lock, at least three; empty: locks are in `redis`.
    public var quorum: [RedisConfiguration]
    /// What every key begins with; sidecars with the same Redis, database and prefix are one fleet.
    public var prefix: String
    public var locks: LockSettings
    public var services: [ServiceDefinition]
    /// The least number of sidecars to assume when Redis is away.
    public var fleetSize: Int
    /// Shown to the fleet and used as the label of owners that give none.
    public var host: String
    /// Shown to the fleet.
    public var version: String

    public init(
        redis: RedisConfiguration,
        quorum: [RedisConfiguration] = [],
        prefix: String = KeySpace.defaultPrefix,
        locks: LockSettings = LockSettings(),
        services: [ServiceDefinition] = [],
        fleetSize: Int = 1,
        host: String = "library",
        version: String = "unknown"
    ) {
        self.redis = redis
        self.quorum = quorum
        self.prefix = prefix
        self.locks = locks
        self.services = services
        self.fleetSize = fleetSize
        self.host = host
        self.version = version
    }
}
