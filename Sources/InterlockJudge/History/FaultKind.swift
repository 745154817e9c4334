/// The kinds of faults. Plans and simulated worlds draw in this order, so append new kinds at the end; a new kind
/// changes what a seed draws.
///
/// The properties that every part needs to know are below, in exhaustive switches. The code that causes each fault is
/// in the harness and the simulation.
///
/// To add a fault, extend these places:
/// - here: a case at the end, `target`, `requirement` and `effects`. Without a `requirement`, a fault is simulated only
///   and never drawn.
/// - the simulation: `weight` in `Profile`; `length` and `inject` in `Faults`.
/// - processes: `FaultGenerator`; `inject` and `repair` in `FaultInjector`.
/// - docs/internals/bench.md: its row.
///
/// The compiler does not check these:
/// - A fault with a `requirement` also needs a case of `FaultAction`; without one, it ends the run.
/// - `repair` frees a proxy as a whole, even if two faults affect the proxy.
/// - A new requirement may need more processes; see `FleetSettings` in `SpawnedFleet`.
/// - A checker must ask `FaultLog` for a new effect.
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
    /// Redis's wall clock jumps.
    case clock
    /// Redis comes back without its last writes, after a crash or the promotion of a lagging replica. In real
    /// processes, Sentinels or the servers of a cluster promote a replica because the primary is killed, stopped, or
    /// cut off from them.
    case failover
    /// Redis is full and rejects writes that need memory.
    case full
    /// Redis is a replica, is loading its data or runs an endless script, and rejects commands.
    case refusing
    /// Redis's script cache is flushed.
    case scripts
    /// An operator breaks a lock, or another program deletes or sets its key.
    case externalLockChange = "foreign-lock"
    /// Another program deletes a counter.
    case externalCounterDeletion = "foreign-counter"
    /// Another program deletes the registry of the fleet.
    case externalRegistryDeletion = "foreign-fleet"
    /// A sidecar reloads its configuration.
    case reload
    /// Clients vanish while they wait for or hold a lease.
    case vanish
    /// One server of a quorum is unreachable, stopped or restarted with its data, or its connections break.
    case quorumServer = "quorum-server"
    /// Hash slots of a cluster move to another primary.
    case reshard
    /// A server joins a cluster, takes over hash slots and leaves again.
    case nodeJoin = "node-join"
    /// A primary of a cluster gives up its hash slots, leaves and joins again.
    case nodeLeave = "node-leave"
    /// One server of a quorum is restarted and comes back empty.
    case quorumRestart = "quorum-restart"
}

extension FaultKind {
    /// The part of the system that a fault affects.
    package enum Target: Hashable, Sendable {
        /// One sidecar, or its connection to Redis.
        case sidecar
        case redis
        /// A server of a quorum.
        case quorum
        /// The data in Redis; the fault is instantaneous.
        case data
        /// The assignment of hash slots to the servers of a cluster.
        case slots
        /// The configuration of one sidecar; the fault is instantaneous.
        case configuration
        /// The client programs of a sidecar.
        case clients
    }

    package var target: Target {
        switch self {
        case .kill, .pause, .partition, .latency, .reset: .sidecar
        case .redisRestart, .redisPause, .redisWipe, .clock, .failover, .full, .refusing: .redis
        case .reshard, .nodeJoin, .nodeLeave: .slots
        case .quorumServer, .quorumRestart: .quorum
        case .scripts, .externalLockChange, .externalCounterDeletion, .externalRegistryDeletion: .data
        case .reload: .configuration
        case .vanish: .clients
        }
    }

    /// A prerequisite for causing a fault in real processes.
    package enum Requirement: Hashable, Sendable {
        /// Only the processes of the fleet.
        case processes
        /// A Redis server that writes to its append-only file before it answers.
        case durableWrites
        /// A proxy between each sidecar and Redis.
        case proxies
        /// A Redis server whose clock can be adjusted.
        case adjustableClock
        /// Clients that can be made to vanish.
        case clients
        /// A Redis primary with replicas that can be promoted.
        case replicas
        /// A Redis Cluster.
        case cluster
    }

    /// The prerequisite for causing this fault in real processes; `nil` if only simulations cause it.
    package var requirement: Requirement? {
        switch self {
        case .kill, .pause, .redisPause, .redisWipe: .processes
        case .redisRestart: .durableWrites
        case .partition, .latency, .reset: .proxies
        case .clock: .adjustableClock
        case .vanish: .clients
        case .failover: .replicas
        case .reshard, .nodeJoin, .nodeLeave: .cluster
        case .full, .refusing, .scripts, .externalLockChange, .externalCounterDeletion, .externalRegistryDeletion, .reload,
            .quorumServer, .quorumRestart:
            nil
        }
    }

    /// The faults that `interlock bench` can cause in real processes.
    package static let injectable = allCases.filter { $0.requirement != nil }
}

/// A possible effect of a fault. Checkers excuse the findings that it explains.
package enum FaultEffect: Int, CaseIterable, Sendable {
    /// Two clients may both consider themselves holders of a lock, because Redis lost the first lease or its clock
    /// ended it early. The fence still stops the stale writer.
    case lostExclusivity
    /// Any lease may end early, not only recently written ones.
    case lostLeases
    /// Redis may lose its counters or count by a different clock. A limit may then be granted once more.
    case lostCounts
    /// Redis may have lost any of its data.
    case lostData
    /// Redis is empty when the fault ends.
    case emptyRedis
    /// Redis has lost its last writes and is back in the state at the start of the fault.
    case lostWrites
    /// Messages that Redis publishes may reach no subscriber.
    case lostMessages
    /// A sidecar may follow `when_redis_is_down`. Includes a sidecar that was stopped for longer than its Redis
    /// timeout, and one that is starting.
    case outage
    /// A sidecar does not answer.
    case silence
    /// A sidecar has lost its state in memory.
    case newProcess
    /// Healthy sidecars may not hand over locks as usual.
    case disturbedLocks
    /// Calls to services get late or different answers.
    case disturbedServices
    /// Messages may arrive, or take effect, only after the fault.
    case heldBack
    /// Votes of a quorum are lost. Sidecars still hand over its locks, but later.
    case lostVotes
    /// A server of a quorum has forgotten its part of every lease.
    case forgottenVotes
    /// A sidecar may receive and publish messages late.
    case delayedMessages
    /// Connections close and reopen while the fault lasts.
    case brokenConnections
    /// The Redis clock jumps.
    case clockJump
    /// Any fault except a jump of the Redis clock.
    case anyExceptClockJump
    /// Any fault except silent sidecars and dying programs.
    case anyExceptSilence
    /// A sidecar cannot reach Redis, or a server of its quorum. A full Redis does not count.
    case cutOff
    /// Any fault.
    case any
}

extension FaultKind {
    /// The catch-all effects of a fault that neither silences a sidecar, kills clients nor moves the clock.
    private static let commonEffects: Set<FaultEffect> = [.anyExceptClockJump, .anyExceptSilence, .any]
    /// The effects of a fault that makes Redis unusable.
    private static let redisOutageEffects: Set<FaultEffect> = commonEffects.union([.outage, .disturbedLocks, .disturbedServices])

    package var effects: Set<FaultEffect> {
        switch self {
        case .kill: [.outage, .silence, .newProcess, .disturbedServices, .delayedMessages, .anyExceptClockJump, .any]
        case .pause: [.outage, .silence, .disturbedServices, .heldBack, .delayedMessages, .anyExceptClockJump, .any]
        case .redisRestart: Self.redisOutageEffects.union([.cutOff, .lostMessages])
        case .redisPause: Self.redisOutageEffects.union([.cutOff, .heldBack, .delayedMessages])
        case .redisWipe:
            Self.redisOutageEffects.union([
                .cutOff, .lostMessages, .lostExclusivity, .lostLeases, .lostCounts, .lostData, .emptyRedis,
            ])
        case .failover:
            Self.redisOutageEffects.union([.cutOff, .lostMessages, .lostExclusivity, .lostCounts, .lostData, .lostWrites])
        case .partition, .latency: Self.redisOutageEffects.union([.cutOff, .heldBack, .delayedMessages])
        case .reset: Self.redisOutageEffects.union([.cutOff, .delayedMessages, .brokenConnections])
        case .clock:
            [
                .clockJump, .lostExclusivity, .lostLeases, .lostCounts, .disturbedLocks, .disturbedServices, .anyExceptSilence,
                .any,
            ]
        case .full: Self.redisOutageEffects
        case .refusing: Self.redisOutageEffects.union([.cutOff])
        case .scripts, .externalRegistryDeletion, .reload: Self.commonEffects.union([.disturbedServices])
        case .externalLockChange: Self.commonEffects.union([.lostExclusivity, .lostLeases, .disturbedLocks])
        case .externalCounterDeletion: Self.commonEffects.union([.lostCounts, .disturbedServices])
        case .vanish: [.disturbedServices, .anyExceptClockJump, .any]
        case .quorumServer: Self.commonEffects.union([.heldBack, .lostVotes, .cutOff])
        case .quorumRestart: Self.commonEffects.union([.heldBack, .lostVotes, .cutOff, .forgottenVotes])
        case .reshard, .nodeJoin, .nodeLeave:
            Self.commonEffects.union([.disturbedLocks, .disturbedServices, .brokenConnections, .delayedMessages])
        }
    }

    package func mayCause(_ effect: FaultEffect) -> Bool { effects.contains(effect) }

    /// Whether sidecars that keep running may be unable to use Redis during the fault and follow `when_redis_is_down`.
    package var cutsOffRedis: Bool { mayCause(.outage) && !mayCause(.silence) }
}
