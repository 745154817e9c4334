package import InterlockJudge
package import InterlockProcesses

/// What exactly is broken, and where.
///
/// A new kind has its name in `FaultKind`, where it says what it breaks, causes and needs, its acts here, how hard it comes in
/// `FaultDraw`, and how it is made and repaired in `FaultRig`. What it needs of the servers an `OwnFleet` that may be asked for it
/// starts.
package enum FaultAct: Hashable, Sendable, Codable {
    /// SIGKILL; started again at the same address.
    case kill(sidecar: Int)
    /// SIGSTOP, then SIGCONT.
    case pause(sidecar: Int)
    /// Redis ends, and starts again with its append-only file, in which all is that was ever acknowledged.
    case redisRestart(RedisEnding)
    /// SIGSTOP, then SIGCONT.
    case redisPause
    /// Redis loses all it knows.
    case redisWipe(RedisWipe)
    /// Sentinels promote a replica, or a cluster one of the primary in this place. The former primary comes back as one, until it has
    /// been made a replica.
    case failover(PrimaryLoss, place: Int)
    /// So many slots, in which there is load, get another primary.
    case reshard(slots: Int, place: Int)
    /// A server joins a cluster and takes so many slots; it leaves again in the end.
    case nodeJoin(slots: Int)
    /// The primary in this place gives its slots away and leaves; it joins again in the end.
    case nodeLeave(place: Int)
    /// No byte passes between the sidecar and Redis, in either direction; connections stay. New ones are refused, or hang.
    case partition(sidecar: Int, refusesConnections: Bool)
    /// Every byte comes late by `fixed` and up to `jitter` ms, in either direction and in order.
    case delay(sidecar: Int, fixed: Int64, jitter: Int64)
    /// A number of bytes passes in either direction at each interval, in ms.
    case trickle(sidecar: Int, bytes: Int, every: Int64)
    /// All connections are broken at each interval, in ms.
    case reset(sidecar: Int, ConnectionBreak, every: Int64)
    /// Redis' wall clock jumps. After a jump back it jumps forward by as much in the end: no lease, count or open breaker
    /// outlasts the fault by the size of the jump. A jump forward stays. So the clock that Redis shows afterwards is never
    /// behind where it was, and what lapsed early stays lapsed.
    case clock(bySeconds: Int)
    /// A number of clients vanishes without a word.
    case vanish(clients: Int)

    /// How Redis ends.
    package enum RedisEnding: String, Hashable, Sendable, Codable, CaseIterable {
        case terminated, killed
    }

    /// How Redis is emptied.
    package enum RedisWipe: String, Hashable, Sendable, Codable, CaseIterable {
        /// Killed, and started without what it may have written to disk.
        case killed
        /// `FLUSHALL`: no connection is lost.
        case flushed
    }

    package var kind: FaultKind {
        switch self {
        case .kill: .kill
        case .pause: .pause
        case .redisRestart: .redisRestart
        case .redisPause: .redisPause
        case .redisWipe: .redisWipe
        case .failover: .failover
        case .reshard: .reshard
        case .nodeJoin: .nodeJoin
        case .nodeLeave: .nodeLeave
        case .partition: .partition
        case .delay, .trickle: .latency
        case .reset: .reset
        case .clock: .clock
        case .vanish: .vanish
        }
    }

    /// What is broken. Never two acts at once on the same target.
    package var target: FaultTarget {
        switch self {
        case .kill(let sidecar), .pause(let sidecar), .partition(let sidecar, _), .delay(let sidecar, _, _),
            .trickle(let sidecar, _, _), .reset(let sidecar, _, _):
            .sidecar(sidecar)
        case .redisRestart, .redisPause, .redisWipe, .failover, .reshard, .nodeJoin, .nodeLeave, .clock: .redis
        case .vanish: .clients
        }
    }

    /// The sidecar that it concerns alone.
    package var sidecar: Int? {
        guard case .sidecar(let number) = target else { return nil }
        return number
    }
}

/// Who can be broken.
package enum FaultTarget: Hashable, Sendable, Codable {
    case redis
    /// A sidecar, or its way to Redis.
    case sidecar(Int)
    case clients
}

extension FaultAct: CustomStringConvertible {
    /// `kill of sidecar 2`.
    package var description: String {
        switch self {
        case .kill(let sidecar): "kill of sidecar \(sidecar)"
        case .pause(let sidecar): "pause of sidecar \(sidecar)"
        case .redisRestart(let ending): "restart of Redis, \(ending.rawValue)"
        case .redisPause: "pause of Redis"
        case .redisWipe(let wipe): "wipe of Redis, \(wipe.rawValue)"
        case .failover(let loss, _): "failover of Redis, its primary \(loss.rawValue)"
        case .reshard(let slots, _): "reshard of \(slots) slots in use"
        case .nodeJoin(let slots): "node-join of a server that takes \(slots) slots"
        case .nodeLeave: "node-leave of a primary"
        case .partition(let sidecar, let refuses):
            "partition of sidecar \(sidecar) from Redis, new connections \(refuses ? "refused" : "hang")"
        case .delay(let sidecar, let fixed, let jitter):
            "latency of sidecar \(sidecar) to Redis, \(fixed) ms and up to \(jitter) ms more"
        case .trickle(let sidecar, let bytes, let pause):
            "latency of sidecar \(sidecar) to Redis, \(bytes) bytes every \(pause) ms"
        case .reset(let sidecar, let manner, let pause):
            "reset of sidecar \(sidecar)'s connections to Redis, \(manner) every \(pause) ms"
        case .clock(let seconds): "clock of Redis, \(seconds < 0 ? "" : "+")\(seconds) s"
        case .vanish(let clients): "vanish of \(clients) clients"
        }
    }
}
