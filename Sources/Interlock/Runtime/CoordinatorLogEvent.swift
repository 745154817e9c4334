package import Logging
internal import RedisClient

/// The log events of a coordinator.
package enum CoordinatorLogEvent: String, LoggedEvent {
    case redisConnected = "redis.connected"
    case redisLost = "redis.lost"
    case redisIsCluster = "redis.cluster"
    case redisEvicts = "redis.evicts"
    case redisUntracked = "redis.untracked"
    case quorumConnected = "quorum.connected"
    case quorumLost = "quorum.lost"
    case lockBroken = "lock.broken"
    case lockUnreplicated = "lock.unreplicated"
    case lockReplicated = "lock.replicated"
    case lockPermitsDiffer = "lock.permits_differ"
    case breakerChanged = "breaker.changed"
    case breakerOpenedLocally = "breaker.alone"
    case permitsUnreported = "permits.unreported"
    case configurationDiffers = "configuration.differs"
    case configurationAgrees = "configuration.agrees"
    case servicesReloaded = "services.reloaded"

    package var line: (level: Logger.Level, message: String) {
        switch self {
        case .redisConnected: (.info, "Redis is connected")
        case .redisLost: (.warning, "Redis is not connected; retrying")
        case .redisIsCluster:
            (
                .error,
                "Redis is a cluster but is configured as a single server, which would reject most keys; use a redis+cluster:// URL"
            )
        case .redisEvicts:
            (.warning, "Redis may evict keys, and an evicted lock is a lost lock; set maxmemory-policy to noeviction")
        case .redisUntracked:
            (.warning, "Redis does not report changed keys; releases elsewhere and lost leases are detected by polling")
        case .quorumConnected: (.info, "A quorum server is connected")
        case .quorumLost: (.warning, "A quorum server is not connected; retrying")
        case .lockBroken: (.notice, "A lock was broken")
        case .lockUnreplicated: (.warning, "Fewer replicas than locks.wait_replicas confirm leases; locks are refused")
        case .lockReplicated: (.info, "Enough replicas confirm leases again")
        case .lockPermitsDiffer:
            (.warning, "A semaphore was requested with a different size; it keeps its size while it is held")
        case .breakerChanged: (.notice, "A breaker changed")
        case .breakerOpenedLocally: (.notice, "A breaker opened for this sidecar only")
        case .permitsUnreported:
            (.warning, "A service's permits are exhausted because its callers do not report outcomes")
        case .configurationDiffers:
            (.warning, "Other sidecars have a different configuration of a service; compare `interlock config show`, then reload")
        case .configurationAgrees: (.notice, "All sidecars have the same configuration of the service again")
        case .servicesReloaded: (.notice, "Services reloaded")
        }
    }
}

extension Logger {
    /// Writes one log line; see `write`.
    package func log(_ event: CoordinatorLogEvent, _ fields: @autoclosure () -> [String: String] = [:]) { write(event, fields) }
}
