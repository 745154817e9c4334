package import InterlockCore
internal import RedisClient

/// A sidecar at a glance.
package struct CoordinatorStatus: Sendable {
    /// Its ID in the fleet.
    package var id: String
    package var host: String
    package var version: String
    /// Which Redis, without credentials.
    package var redis: String
    /// The hosts that can share the Redis.
    package var redisScope: RedisScope
    package var isRedisUp: Bool
    /// Why Redis is not up, or what it has refused in the last ten seconds (at `maxmemory`, by its ACL); `nil`: neither.
    package var redisFailure: String?
    /// Of a Redis behind Sentinels; `nil`: it is at one address.
    package var primary: PrimaryStatus?
    /// Of a cluster; `nil`: Redis is none.
    package var cluster: ClusterStatus?
    /// The most replicas that a primary has; `nil`: not known, as of a Redis at one address.
    package var replicas: Int?
    /// `locks.wait_replicas`.
    package var waitReplicas: Int
    package var redisVersion: String?
    /// Anything but `noeviction` can lose locks.
    package var evictionPolicy: String?
    /// The live sidecars' IDs when Redis was last heard of.
    package var fleet: [String]
    package var locksHeld: Int
    package var locksWaiting: Int
    /// `locks.max_wait` in milliseconds: what is asked for beyond it is cut.
    package var longestWait: Int64
    package var services: Int
    /// Those that another live sidecar defines differently.
    package var servicesDiffering: [String]
    package var permitsUnderWay: Int
    /// Calls that wait for a place, or through a pause that a limit made.
    package var permitsWaiting: Int
    package var redisCommands: Int64
}
