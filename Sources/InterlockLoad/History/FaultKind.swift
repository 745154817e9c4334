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

    /// Two may believe that they hold a lock: Redis forgot the first, or its clock let the lease lapse early. The fence still
    /// refuses the stale writer.
    public var mayCostExclusivity: Bool {
        switch self {
        case .redisWipe, .clock: true
        case .kill, .pause, .redisRestart, .redisPause, .partition, .latency, .reset, .vanish: false
        }
    }

    /// Redis may forget what it counted, or count by another time: a limit may then be granted once more.
    public var mayForgetCounts: Bool {
        switch self {
        case .redisWipe, .clock: true
        case .kill, .pause, .redisRestart, .redisPause, .partition, .latency, .reset, .vanish: false
        }
    }

    /// Sidecars may be unable to reach Redis while it lasts, and act by what `when_redis_is_down` says.
    public var cutsOffRedis: Bool {
        switch self {
        case .redisRestart, .redisPause, .redisWipe, .partition, .latency, .reset: true
        case .kill, .pause, .clock, .vanish: false
        }
    }
}
