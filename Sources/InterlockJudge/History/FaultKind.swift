/// The faults of a run.
package enum FaultKind: String, Hashable, Sendable, Codable, CaseIterable {
    /// A sidecar is killed (SIGKILL) and restarted.
    case kill
    /// A sidecar is stopped (SIGSTOP) for longer than a lease.
    case pause
    /// Redis is restarted with the data of its append-only file.
    case redisRestart = "redis-restart"
    /// Redis is stopped (SIGSTOP) for a while.
    case redisPause = "redis-pause"
    /// Redis is killed and starts empty, or is flushed.
    case redisWipe = "redis-wipe"
    /// No byte passes between one sidecar and Redis.
    case partition
    /// Bytes between one sidecar and Redis are late or trickle in.
    case latency
    /// Connections between one sidecar and Redis are reset or half-closed repeatedly.
    case reset
    /// Redis' wall clock jumps.
    case clock
    /// Clients vanish while they wait or hold.
    case vanish
    /// Redis comes back without its last writes, after a crash or the promotion of a lagging replica.
    case failover
    /// Redis is full and refuses writes that need memory.
    case full
    /// Redis is a replica, is loading its data or runs an endless script, and refuses commands.
    case refusing
    /// Redis' script cache is flushed.
    case scripts
    /// One server of a quorum is away, stopped or restarted with its data, or its connections break.
    case quorumServer = "quorum-server"
    /// An operator breaks a lock, or another program deletes or sets its key.
    case foreignLock = "foreign-lock"
    /// Another program deletes a counter.
    case foreignCounter = "foreign-counter"
    /// Another program deletes the list of the fleet.
    case foreignFleet = "foreign-fleet"
    /// A sidecar reloads its configuration.
    case reload

    /// The faults that `interlock bench` can cause in real processes.
    package static let rigged: [FaultKind] = [
        .kill, .pause, .redisRestart, .redisPause, .redisWipe, .partition, .latency, .reset, .clock, .vanish,
    ]

    /// Two clients may believe that they hold a lock: Redis lost the first lease, or its clock ended it early. The fence still
    /// stops the stale writer.
    package var mayCostExclusivity: Bool {
        switch self {
        case .redisWipe, .clock, .failover, .foreignLock: true
        case .kill, .pause, .redisRestart, .redisPause, .partition, .latency, .reset, .vanish, .full, .refusing, .scripts,
            .quorumServer, .foreignCounter, .foreignFleet, .reload:
            false
        }
    }

    /// Redis may lose counts or count by another time. A limit may then be granted once more.
    package var mayForgetCounts: Bool {
        switch self {
        case .redisWipe, .clock, .failover, .foreignCounter: true
        case .kill, .pause, .redisRestart, .redisPause, .partition, .latency, .reset, .vanish, .full, .refusing, .scripts,
            .quorumServer, .foreignLock, .foreignFleet, .reload:
            false
        }
    }

    /// Sidecars may be unable to reach Redis during the fault, and follow `when_redis_is_down`.
    package var cutsOffRedis: Bool {
        switch self {
        case .redisRestart, .redisPause, .redisWipe, .partition, .latency, .reset, .failover, .full, .refusing: true
        case .kill, .pause, .clock, .vanish, .scripts, .quorumServer, .foreignLock, .foreignCounter, .foreignFleet, .reload:
            false
        }
    }
}
