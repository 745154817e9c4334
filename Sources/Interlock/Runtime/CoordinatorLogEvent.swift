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
    case lockPermitsDiffer = "lock.permits_differ"
    case breakerChanged = "breaker.changed"
    case breakerLocally = "breaker.alone"
    case permitsUnreported = "permits.unreported"
    case configurationDiffers = "configuration.differs"
    case configurationAgrees = "configuration.agrees"
    case servicesReloaded = "services.reloaded"

    package var line: (level: Logger.Level, message: String) {
        switch self {
        case .redisConnected: (.info, "Redis is connected")
        case .redisLost: (.warning, "Redis is not connected; it is tried again until it is")
        case .redisIsCluster:
            (
                .error,
                "Redis is a cluster, and was named as one server: most names would be refused; name it as redis+cluster://"
            )
        case .redisEvicts:
            (.warning, "Redis may evict keys: an evicted lock is a lost lock. Set maxmemory-policy to noeviction")
        case .redisUntracked:
            (.warning, "Redis does not tell which keys are changed: foreign releases and lost leases are noticed later")
        case .quorumConnected: (.info, "A server of the quorum is connected")
        case .quorumLost: (.warning, "A server of the quorum is not connected; it is tried again until it is")
        case .lockBroken: (.notice, "A lock was broken")
        case .lockPermitsDiffer:
            (.warning, "A semaphore was asked for with another size than it has: it keeps its size while it is held")
        case .breakerChanged: (.notice, "A breaker changed")
        case .breakerLocally: (.notice, "A breaker opened for this sidecar alone")
        case .permitsUnreported:
            (.warning, "A service's permits are used up: its callers do not report the outcomes of their calls")
        case .configurationDiffers:
            (.warning, "Other sidecars have another configuration of a service: compare `interlock config show`, then reload")
        case .configurationAgrees: (.notice, "No sidecar has another configuration of the service any more")
        case .servicesReloaded: (.notice, "The services were reloaded")
        }
    }
}

extension Logger {
    /// Writes one log line; see `write`.
    package func log(_ event: CoordinatorLogEvent, _ fields: @autoclosure () -> [String: String] = [:]) { write(event, fields) }
}
