package import InterlockJudge
package import InterlockProcesses

/// A concrete fault: its kind, target and severity.
///
/// To add a kind, name it in `FaultKind` with its target, effects and requirements. Add its actions here, draw their
/// severity in `FaultGenerator`, and cause and repair them in `FaultInjector`. `SpawnedFleet` starts the servers that
/// the kind requires.
package enum FaultAction: Hashable, Sendable {
    /// A sidecar is killed (SIGKILL) and restarted at the same address.
    case kill(sidecar: Int)
    /// A sidecar is stopped (SIGSTOP) and continued (SIGCONT).
    case pause(sidecar: Int)
    /// Redis exits and is restarted with its append-only file, which holds every acknowledged write.
    case redisRestart(RedisExit)
    /// Redis is stopped (SIGSTOP) and continued (SIGCONT).
    case redisPause
    /// Redis loses all its data.
    case redisWipe(RedisWipe)
    /// Sentinels promote a replica, or a cluster promotes a replica of the primary with this index. The former primary
    /// returns as a primary, and later becomes a replica.
    case failover(PrimaryLoss, serverIndex: Int)
    /// Another primary takes over `slots` hash slots, starting with those that carry load.
    case reshard(slots: Int, serverIndex: Int)
    /// A server joins a cluster and takes over `slots` hash slots. The repair removes that server.
    case nodeJoin(slots: Int)
    /// The primary with this index hands over its hash slots and leaves. The repair adds it again.
    case nodeLeave(serverIndex: Int)
    /// No byte passes between the sidecar and Redis in either direction. Existing connections stay open. New ones are
    /// refused, or hang.
    case partition(sidecar: Int, refusesConnections: Bool)
    /// Every byte is delayed by `fixedMilliseconds` plus up to `jitterMilliseconds`. The delay applies to both
    /// directions and keeps the order.
    case delay(sidecar: Int, fixedMilliseconds: Int64, jitterMilliseconds: Int64)
    /// Up to `bytes` bytes pass in either direction once per interval.
    case trickle(sidecar: Int, bytes: Int, everyMilliseconds: Int64)
    /// All connections break once per interval.
    case reset(sidecar: Int, ConnectionBreak, everyMilliseconds: Int64)
    /// The wall clock of Redis jumps. The repair of a jump back is a jump forward by the same amount, so that no lease,
    /// count or open breaker outlasts the fault by the size of the jump. A jump forward is not repaired, because a jump
    /// back would revive expired data.
    case clock(bySeconds: Int)
    /// Up to `clients` busy clients vanish without releasing their leases or reporting their calls.
    case vanish(clients: Int)

    /// How Redis exits.
    package enum RedisExit: String, Hashable, Sendable, Codable, CaseIterable {
        case terminated, killed
    }

    /// How Redis loses its data.
    package enum RedisWipe: String, Hashable, Sendable, Codable, CaseIterable {
        /// Redis is killed and restarted without its files.
        case killed
        /// `FLUSHALL` deletes the data, and all connections stay open.
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

    /// The target of the action. Actions on the same target never overlap.
    package var target: FaultTarget {
        switch self {
        case .kill(let sidecar), .pause(let sidecar), .partition(let sidecar, _), .delay(let sidecar, _, _),
            .trickle(let sidecar, _, _), .reset(let sidecar, _, _):
            .sidecar(sidecar)
        case .redisRestart, .redisPause, .redisWipe, .failover, .reshard, .nodeJoin, .nodeLeave, .clock: .redis
        case .vanish: .clients
        }
    }

    /// The sidecar that the action affects; `nil` if it affects Redis or the clients.
    package var sidecar: Int? {
        guard case .sidecar(let number) = target else { return nil }
        return number
    }
}

/// The target of a fault.
package enum FaultTarget: Hashable, Sendable, Codable {
    case redis
    /// A sidecar, or its connection to Redis.
    case sidecar(Int)
    case clients
}

extension FaultAction: CustomStringConvertible {
    /// The action in words, such as `kill of sidecar 2`.
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
        case .delay(let sidecar, let fixedMilliseconds, let jitterMilliseconds):
            "latency of sidecar \(sidecar) to Redis, \(fixedMilliseconds) ms and up to \(jitterMilliseconds) ms more"
        case .trickle(let sidecar, let bytes, let intervalMilliseconds):
            "latency of sidecar \(sidecar) to Redis, \(bytes) bytes every \(intervalMilliseconds) ms"
        case .reset(let sidecar, let manner, let intervalMilliseconds):
            "reset of sidecar \(sidecar)'s connections to Redis, \(manner) every \(intervalMilliseconds) ms"
        case .clock(let seconds): "clock of Redis, \(seconds < 0 ? "" : "+")\(seconds) s"
        case .vanish(let clients): "vanish of \(clients) clients"
        }
    }
}
