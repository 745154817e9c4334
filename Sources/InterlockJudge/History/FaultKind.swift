/// What can be broken while a run goes on.
public enum FaultKind: String, Hashable, Sendable, Codable, CaseIterable {
    /// A sidecar is killed (SIGKILL) and started again.
    case kill
    /// A sidecar is stopped (SIGSTOP) for longer than a lease.
    case pause
    /// Redis is stopped and started again, with what it had written to its append-only file.
    case redisRestart = "redis-restart"
    /// Redis is stopped (SIGSTOP) for a while.
    case redisPause = "redis-pause"
    /// Redis is killed and starts empty, or is flushed.
    case redisWipe = "redis-wipe"
    /// No byte passes between one sidecar and Redis.
    case partition
    /// Bytes between one sidecar and Redis come late, or trickle.
    case latency
    /// The connections between one sidecar and Redis are reset or half-closed, again and again.
    case reset
    /// The wall clock of Redis jumps.
    case clock
    /// Clients vanish while they wait or hold.
    case vanish
    /// Redis comes back without its last writes: a crash, or the promotion of a replica that lagged.
    case failover
    /// Redis is full, and takes no write that needs memory.
    case full
    /// Redis is a replica, or reads its data, or is busy with a script, and refuses what it is asked.
    case refusing
    /// The scripts that Redis knew are flushed.
    case scripts
    /// One server of a quorum is away, stands still or restarts with its data, or its connections break.
    case quorumServer = "quorum-server"
    /// An operator breaks a lock, or another program deletes or sets its key.
    case foreignLock = "foreign-lock"
    /// Another program deletes a counter.
    case foreignCounter = "foreign-counter"
    /// Another program deletes the list of the fleet.
    case foreignFleet = "foreign-fleet"
    /// The configuration of a sidecar is read again.
    case reload

    /// Those that a rig can bring about in real processes.
    public static let rigged: [FaultKind] = [
        .kill, .pause, .redisRestart, .redisPause, .redisWipe, .partition, .latency, .reset, .clock, .vanish,
    ]

    /// Two may believe that they hold a lock: Redis forgot the first, or its clock let the lease lapse early. The fence still
    /// refuses the stale writer.
    public var mayCostExclusivity: Bool {
        switch self {
        case .redisWipe, .clock, .failover, .foreignLock: true
        case .kill, .pause, .redisRestart, .redisPause, .partition, .latency, .reset, .vanish, .full, .refusing, .scripts,
            .quorumServer, .foreignCounter, .foreignFleet, .reload:
            false
        }
    }

    /// Redis may forget what it counted, or count by another time: a limit may then be granted once more.
    public var mayForgetCounts: Bool {
        switch self {
        case .redisWipe, .clock, .failover, .foreignCounter: true
        case .kill, .pause, .redisRestart, .redisPause, .partition, .latency, .reset, .vanish, .full, .refusing, .scripts,
            .quorumServer, .foreignLock, .foreignFleet, .reload:
            false
        }
    }

    /// Sidecars may be unable to reach Redis while it lasts, and act by what `when_redis_is_down` says.
    public var cutsOffRedis: Bool {
        switch self {
        case .redisRestart, .redisPause, .redisWipe, .partition, .latency, .reset, .failover, .full, .refusing: true
        case .kill, .pause, .clock, .vanish, .scripts, .quorumServer, .foreignLock, .foreignCounter, .foreignFleet, .reload:
            false
        }
    }
}
