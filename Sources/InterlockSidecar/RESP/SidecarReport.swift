internal import Glibc
internal import Interlock

/// `INFO` of a sidecar: sections of `key:value` lines, as Redis has them.
struct SidecarReport {
    let status: CoordinatorStatus
    let connections: Int

    var text: String {
        var lines = [
            "# Sidecar", "interlock_version:\(status.version)", "id:\(status.id)", "host:\(status.host)",
            "process_id:\(getpid())", "connected_clients:\(connections)", "",
            "# Redis", "redis:\(status.redis)", "redis_up:\(status.isRedisUp ? 1 : 0)",
            "redis_failure:\(status.redisFailure ?? "")", "redis_version:\(status.redisVersion ?? "")",
            "maxmemory_policy:\(status.evictionPolicy ?? "")", "redis_commands:\(status.redisCommands)", "",
            "# Fleet", "sidecars:\(status.fleet.count)", "members:\(status.fleet.joined(separator: ","))", "",
            "# Locks", "locks_held:\(status.locksHeld)", "locks_waiting:\(status.locksWaiting)", "",
            "# Services", "services:\(status.services)",
            "services_differing:\(status.servicesDiffering.joined(separator: ","))",
            "permits_under_way:\(status.permitsUnderWay)", "permits_waiting:\(status.permitsWaiting)",
        ]
        lines.append("")
        return lines.joined(separator: "\r\n")
    }
}
