package import InterlockCore
internal import RedisClient

/// A summary of a sidecar's state.
package struct CoordinatorStatus: Sendable {
    /// The sidecar's ID in the fleet.
    package var id: String
    package var host: String
    package var version: String
    /// The address of its Redis, without credentials.
    package var redis: String
    /// The hosts that can reach the sidecar's Redis.
    package var redisScope: RedisScope
    package var isRedisUp: Bool
    /// The reason why Redis is down, or the error with which it rejected a command in the last ten seconds, for example
    /// at `maxmemory` or because of an ACL; `nil` if Redis works.
    package var redisFailure: String?
    /// The primary that Sentinels report; `nil` without Sentinels.
    package var primary: PrimaryStatus?
    /// The state of the cluster; `nil` if Redis is not a cluster.
    package var cluster: ClusterStatus?
    /// The largest number of replicas of any primary; `nil` if unknown, for example because Redis has a fixed address.
    package var replicaCount: Int?
    /// `locks.wait_replicas`.
    package var waitReplicas: Int
    package var redisVersion: String?
    /// The eviction policy of Redis. Any value but `noeviction` can lose locks.
    package var evictionPolicy: String?
    /// The IDs of the live sidecars as of the last reply from Redis.
    package var fleet: [String]
    package var heldLockCount: Int
    package var lockWaiterCount: Int
    /// `locks.max_wait` in milliseconds. Longer waits are shortened to it.
    package var maximumWaitMilliseconds: Int64
    package var serviceCount: Int
    /// The services that another live sidecar defines differently.
    package var servicesDiffering: [String]
    package var inFlightPermitCount: Int
    /// The number of calls that wait for a slot of a bulkhead or for the end of a pause that a limit has caused.
    package var waitingPermitCount: Int
    package var redisCommandCount: Int64
}
