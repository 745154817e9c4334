import Interlock
import InterlockCore
import InterlockJudge
import SimulatedRedis

/// A fault that has begun: the action that ends it, and a description for the story.
typealias StartedFault = (heal: () -> Void, description: String)

/// Causes faults, one or several at the same time, and ends them again.
final class Faults {
    /// The target of a fault with a duration. At most one of these faults affects a target at a time. A fault without a
    /// duration may occur at any time.
    private enum Target: Equatable {
        case sidecar(Int), redis, quorum
    }

    private unowned let world: World
    private unowned let state: WorldState
    private var random: SeededRandom
    private var lastNumber = 0
    private var active: [Int: (target: Target?, isSelfEnding: Bool, heal: () -> Void)] = [:]
    /// All faults with their times, for the story.
    private(set) var storyFaults: [StoryFault] = []
    /// The earliest time at which a server of a replicated Redis may briefly go down again.
    private var nextOutage: Nanoseconds = 0
    /// The lead of the Redis clock that the fault being started has caused, in milliseconds.
    private var leadMilliseconds: Int64 = 0
    /// The maximum lead of the Redis clock so far, in milliseconds.
    private var maximumLeadMilliseconds: Int64 = 0
    /// The forward jumps after which the correct time has not caught up with the fences yet. Each has its size and the
    /// time at which the correct time catches up.
    private var pendingJumps: [(milliseconds: Int64, end: Nanoseconds)] = []
    /// The numbers of the faults that may occur; `nil` if all may. `Shrinker` restricts them.
    private let enabledFaults: Set<Int>?
    private let topologyFaults: TopologyFaults
    private var isSingle: Bool { state.profile.topology == .single }

    init(world: World, state: WorldState, random: SeededRandom, enabledFaults: Set<Int>?) {
        self.world = world
        self.state = state
        self.random = random
        self.enabledFaults = enabledFaults
        topologyFaults = TopologyFaults(machines: state.machines, timeline: state.timeline)
    }

    func start() {
        guard let gap = state.profile.faultGapMilliseconds else { return }
        state.timeline.schedule(in: .milliseconds(Int64.random(in: gap, using: &random))) { [weak self] in
            guard let self, !state.isClosing else { return }
            draw()
            start()
        }
    }

    /// Ends every fault, except those that end without help. Ending a failover early could return a primary in the
    /// middle of it, and the primary could then be replaced after its fault has ended.
    func endAll() {
        for (number, fault) in active.sorted(by: { $0.key < $1.key }) where !fault.isSelfEnding {
            end(number, fault.heal)
        }
    }

    private func draw() {
        // Each fault has its own random stream, so that omitting a fault leaves the others unchanged.
        var stream = random.split()
        let kinds = state.profile.faultWeights
        var point = Int.random(in: 0..<kinds.reduce(0) { $0 + $1.weight }, using: &stream)
        for (kind, weight) in kinds {
            if point < weight { return begin(kind, &stream) }
            point -= weight
        }
    }

    private func begin(_ kind: FaultKind, _ random: inout SeededRandom) {
        lastNumber += 1
        let number = lastNumber
        let sidecar = Int.random(in: state.sidecars.indices, using: &random)
        let target: Target? =
            switch kind.target {
            case .sidecar: .sidecar(sidecar)
            case .redis: .redis
            case .quorum: .quorum
            case .data, .configuration, .clients, .slots: nil
            }
        let isTargetBusy = target != nil && active.values.contains { $0.target == target }
        // Connections may also break during another fault.
        guard enabledFaults?.contains(number) ?? true, active.count < 3, !isTargetBusy || target == .quorum else { return }
        var lengthMilliseconds = Self.lengthMilliseconds(of: kind, &random)
        let started = inject(
            kind, sidecar: sidecar, number: number, lengthMilliseconds: &lengthMilliseconds, isTargetBusy: isTargetBusy,
            &random)
        guard let (heal, description) = started else { return }
        let affectedSidecar: Int? =
            switch kind.target {
            case .sidecar, .configuration, .clients: sidecar
            case .redis, .quorum, .data, .slots: nil
            }
        state.record(.faultBegan(fault: number, kind, sidecar: affectedSidecar))
        storyFaults.append(
            StoryFault(
                number: number, kind: kind, sidecar: affectedSidecar, began: state.timeline.instant, ended: nil,
                clockLeadMilliseconds: leadMilliseconds,
                description: description))
        leadMilliseconds = 0
        guard lengthMilliseconds > 0 else { return end(number, heal) }
        active[number] = (target, isSelfEnding: !isSingle && kind == .failover || kind.target == .slots, heal)
        state.timeline.schedule(in: .milliseconds(lengthMilliseconds)) { [weak self] in
            guard let self, let fault = active[number] else { return }
            end(number, fault.heal)
        }
    }

    private func end(_ number: Int, _ heal: () -> Void) {
        active[number] = nil
        heal()
        state.record(.faultEnded(fault: number))
        if let index = storyFaults.lastIndex(where: { $0.number == number }) { storyFaults[index].ended = state.timeline.instant }
    }

    /// Draws the length of a fault, in milliseconds; 0 for an instantaneous fault.
    private static func lengthMilliseconds(of kind: FaultKind, _ random: inout SeededRandom) -> Int64 {
        switch kind {
        case .scripts, .externalLockChange, .externalCounterDeletion, .externalRegistryDeletion, .reload: 0
        // The upper limit, because a move ends once it is complete.
        case .reshard, .nodeJoin, .nodeLeave: 20_000
        case .kill: Int64.random(in: 20...1500, using: &random)
        case .pause:
            random.happens(0.5) ? Int64.random(in: 200...2000, using: &random) : Int64.random(in: 2000...15_000, using: &random)
        case .redisWipe: random.happens(0.5) ? 0 : Int64.random(in: 10...1500, using: &random)
        case .clock: Int64.random(in: 500...8000, using: &random)
        case .partition, .full: Int64.random(in: 200...9000, using: &random)
        case .redisRestart, .redisPause, .latency, .reset, .failover, .refusing, .vanish, .quorumServer,
            .quorumRestart:
            random.happens(0.5) ? Int64.random(in: 50...1000, using: &random) : Int64.random(in: 1000...3000, using: &random)
        }
    }

    /// Starts the fault. Returns the action that ends it and a description; `nil` if it is impossible now.
    private func inject(
        _ kind: FaultKind, sidecar: Int, number: Int, lengthMilliseconds: inout Int64, isTargetBusy: Bool,
        _ random: inout SeededRandom
    ) -> StartedFault? {
        let host = state.sidecars[sidecar]
        let paths = state.profile.quorum > 0 ? Array(host.paths.prefix(1)) : host.paths
        let redis = victim(of: kind, &random)
        if !isSingle, kind == .redisRestart || kind == .redisPause {
            // A failover would replace a server that is down for longer, or that is up for less time between two
            // outages.
            guard state.timeline.now >= nextOutage else { return nil }
            lengthMilliseconds = min(lengthMilliseconds, TopologyFaults.maximumOutageMilliseconds)
            nextOutage =
                state.timeline.now + .milliseconds(lengthMilliseconds + TopologyFaults.minimumUptimeMilliseconds)
        }
        switch kind {
        case .kill:
            guard host.isUp, !host.isStopped else { return nil }
            guard random.happens(0.3) else {
                host.kill()
                return ({ host.start() }, "killed and restarted")
            }
            host.drain()
            lengthMilliseconds += 300
            state.timeline.schedule(in: .milliseconds(300)) { [weak self] in
                if self?.active[number] != nil { host.kill() }
            }
            return (
                {
                    host.kill(); host.start()
                }, "terminated and restarted"
            )
        case .pause:
            guard host.isUp else { return nil }
            host.stop()
            return ({ host.resume() }, "is paused")
        case .partition:
            let isRefusing = random.happens(0.3)
            if isRefusing {
                for path in paths {
                    path.isRefusing = true
                    path.cutAll()
                }
                return ({ for path in paths { path.isRefusing = false } }, "connections are refused")
            }
            for path in paths { path.isBlackHole = true }
            let isCut = random.happens(0.5)
            return (
                {
                    for path in paths {
                        path.isBlackHole = false; if isCut { path.cutAll() }
                    }
                }, "no bytes pass"
            )
        case .latency:
            let normalDelay = paths[0].delay
            let maximumMilliseconds = Int64.random(in: 1...400, using: &random)
            for path in paths {
                path.delay = .milliseconds(maximumMilliseconds / 2)...(.milliseconds(maximumMilliseconds))
                path.splitProbability = 0.3
            }
            return (
                {
                    for path in paths {
                        path.delay = normalDelay; path.splitProbability = 0
                    }
                }, "up to \(maximumMilliseconds) ms of delay, in pieces"
            )
        case .reset:
            for path in paths {
                path.cutAll()
                path.splitProbability = 0.5
            }
            let intervalMilliseconds = Int64.random(in: 20...600, using: &random)
            let end = state.timeline.now + .milliseconds(lengthMilliseconds)
            for path in paths { cutAgain(path, every: .milliseconds(intervalMilliseconds), until: end) }
            return (
                { for path in paths { path.splitProbability = 0 } },
                "connections are reset every \(intervalMilliseconds) ms"
            )
        case .redisRestart:
            guard redis.isUp, !redis.isStopped else { return nil }
            redis.crash()
            return ({ redis.start(with: .all) }, "restarts with its data")
        case .failover:
            guard redis.isUp, !redis.isStopped else { return nil }
            guard isSingle else {
                lengthMilliseconds = TopologyFaults.failoverMilliseconds
                return topologyFaults.failover(completion: { [weak self] in self?.finish(number) }, &random)
            }
            redis.takeSnapshot()
            state.isReplicaLagging = true
            let lagMilliseconds = Int64.random(in: 1...800, using: &random)
            lengthMilliseconds += lagMilliseconds
            state.timeline.schedule(in: .milliseconds(lagMilliseconds)) { [weak self] in
                if self?.active[number] != nil { redis.crash() }
            }
            return (
                { [state] in
                    state.isReplicaLagging = false
                    if !redis.isUp { redis.start(with: .some) }
                }, "loses its last \(lagMilliseconds) ms"
            )
        case .redisPause:
            guard redis.isUp, !redis.isStopped else { return nil }
            redis.stop()
            return ({ redis.resume() }, "is paused")
        case .redisWipe:
            guard redis.isUp, !redis.isStopped else { return nil }
            // A server with replicas gets their data back when it restarts empty, so with several servers the
            // primaries are flushed instead.
            if !isSingle { lengthMilliseconds = 0 }
            guard lengthMilliseconds > 0 else {
                for primary in state.machines.primaries { primary.wipe() }
                return ({}, "is flushed")
            }
            redis.crash()
            return ({ redis.start(with: .none) }, "restarts empty")
        case .full:
            redis.server.condition = .outOfMemory
            return ({ redis.server.condition = .serving }, "is full")
        case .refusing:
            // On several servers, read-only is a replica's normal state, and a busy server is replaced.
            let conditions: [SimulatedServer.Condition] =
                isSingle ? [.readOnly, .loading, .busy, .misconfigured] : [.loading, .misconfigured]
            let condition = conditions[Int.random(in: conditions.indices, using: &random)]
            redis.server.condition = condition
            return ({ redis.server.condition = .serving }, "is \(condition)")
        case .scripts:
            redis.server.flushScripts()
            return ({}, "are flushed")
        case .clock:
            let steps: [Int64] = [200, 2000, 60_000, 3_600_000, 86_400_000 * 3, 86_400_000 * 400]
            var step = steps[Int.random(in: steps.indices, using: &random)]
            if random.happens(0.4) { step = -step }
            var other = random.happens(0.3) ? step * 2 : 0
            step = jump(byMilliseconds: step, lasting: lengthMilliseconds)
            if other != 0 { other = jump(byMilliseconds: other, lasting: lengthMilliseconds) }
            let servers = state.machines.servers
            for server in servers { server.setClock(aheadByMilliseconds: step) }
            leadMilliseconds = other == 0 ? step : other
            if other != 0 {
                state.timeline.schedule(in: .milliseconds(lengthMilliseconds / 2)) { [weak self] in
                    guard let self, active[number] != nil else { return }
                    // Another jump makes Redis lose counts again.
                    state.record(.faultEnded(fault: number))
                    for server in servers { server.setClock(aheadByMilliseconds: other) }
                    state.record(.faultBegan(fault: number, .clock, sidecar: nil))
                }
            }
            let heal = { for server in servers { server.setClock(aheadByMilliseconds: 0) } }
            return (heal, "is \(step) ms ahead\(other == 0 ? "" : ", then \(other)")")
        case .externalLockChange: return world.otherSoftware.touchLock(&random)
        case .externalCounterDeletion: return world.otherSoftware.deleteCounter(&random)
        case .externalRegistryDeletion: return world.otherSoftware.deleteFleet()
        case .reload: return world.reload(sidecar: sidecar, &random)
        case .quorumServer:
            return breakQuorumServer(lengthMilliseconds: &lengthMilliseconds, isOneUnreachable: isTargetBusy, &random)
        case .quorumRestart: return isTargetBusy ? nil : restartQuorumServer(&random)
        case .reshard, .nodeJoin, .nodeLeave:
            return topologyFaults.move(kind, completion: { [weak self] in self?.finish(number) }, &random)
        case .vanish:
            world.killClients(ofSidecar: sidecar, forMilliseconds: lengthMilliseconds)
            return ({}, "its clients die and restart")
        }
    }

    /// Returns the server that a fault of Redis affects.
    private func victim(of kind: FaultKind, _ random: inout SeededRandom) -> RedisHost {
        guard case .cluster = state.machines, kind.target == .redis || kind.target == .data else { return state.redis }
        let primaries = state.machines.primaries
        return primaries.isEmpty ? state.redis : primaries[Int.random(in: primaries.indices, using: &random)]
    }

    /// Ends a fault early.
    private func finish(_ number: Int) {
        guard let fault = active[number] else { return }
        end(number, fault.heal)
    }

    /// Records a clock jump, and returns its actual size in milliseconds. Replaces a jump that the documentation
    /// excludes with a short one.
    private func jump(byMilliseconds wanted: Int64, lasting lengthMilliseconds: Int64) -> Int64 {
        let now = state.timeline.now
        pendingJumps.removeAll { $0.end <= now }
        let actual = isAllowed(jumpByMilliseconds: wanted) ? wanted : 200
        maximumLeadMilliseconds = max(maximumLeadMilliseconds, actual)
        if actual > 0 { pendingJumps.append((actual, now + .milliseconds(lengthMilliseconds + actual))) }
        return actual
    }

    /// Returns whether the clock may jump this far. Redis forgets a fence when its clock runs a day past the fence's
    /// time. Fences then fall when the clock returns, as `docs/reference/locks.md` documents.
    private func isAllowed(jumpByMilliseconds milliseconds: Int64) -> Bool {
        let dayInMilliseconds: Int64 = 86_000_000
        return milliseconds < 0
            ? maximumLeadMilliseconds < dayInMilliseconds
            : pendingJumps.allSatisfy { milliseconds <= $0.milliseconds + dayInMilliseconds }
    }

    /// Cuts a path's connections repeatedly.
    private func cutAgain(_ path: Path, every pause: Nanoseconds, until end: Nanoseconds) {
        state.timeline.schedule(in: pause) { [weak self] in
            guard let self, state.timeline.now < end else { return }
            path.cutAll()
            cutAgain(path, every: pause, until: end)
        }
    }

    /// Breaks one server of the quorum. At most one is down at any time, because a quorum guarantees nothing without a
    /// majority.
    private func breakQuorumServer(
        lengthMilliseconds: inout Int64, isOneUnreachable: Bool, _ random: inout SeededRandom
    ) -> StartedFault? {
        let index = Int.random(in: state.quorum.indices, using: &random)
        let host = state.quorum[index]
        guard host.isUp, !host.isStopped else { return nil }
        let point = random.unit()
        guard !isOneUnreachable else { return cutAll(of: index, lengthMilliseconds: &lengthMilliseconds) }
        switch point {
        case ..<0.35:
            host.stop()
            return ({ host.resume() }, "\(host.name) is paused")
        case ..<0.65:
            host.crash()
            return ({ host.start(with: .all) }, "\(host.name) is down and keeps its data")
        case ..<0.85:
            return cutAll(of: index, lengthMilliseconds: &lengthMilliseconds)
        default:
            let sidecar = state.sidecars[Int.random(in: state.sidecars.indices, using: &random)]
            let path = sidecar.paths[index + 1]
            path.isBlackHole = true
            return ({ path.isBlackHole = false }, "no bytes pass between sidecar \(sidecar.number) and \(host.name)")
        }
    }

    /// Restarts one server empty, so that it loses its leases and fences. The other servers keep theirs until the next
    /// restart.
    private func restartQuorumServer(_ random: inout SeededRandom) -> StartedFault? {
        let host = state.quorum[Int.random(in: state.quorum.indices, using: &random)]
        guard host.isUp, !host.isStopped else { return nil }
        host.crash()
        return ({ host.start(with: .none) }, "\(host.name) restarts empty")
    }

    /// Cuts all connections to one server of the quorum.
    private func cutAll(of index: Int, lengthMilliseconds: inout Int64) -> StartedFault {
        for sidecar in state.sidecars { sidecar.paths[index + 1].cutAll() }
        lengthMilliseconds = 0
        return ({}, "connections to \(state.quorum[index].name) are reset")
    }
}

/// Other software on the same Redis that modifies Interlock's keys.
final class OtherSoftware {
    private unowned let state: WorldState

    init(state: WorldState) {
        self.state = state
    }

    private var keys: KeySpace {
        if case .cluster = state.machines { KeySpace(isOnCluster: true) } else { KeySpace() }
    }

    /// Returns the server that has a key; `nil` if it does not run.
    private func server(of key: String) -> RedisHost? {
        let host = state.machines.host(of: key)
        return host.isUp && !host.isStopped ? host : nil
    }

    private func run(_ command: [String], on host: RedisHost) {
        let connection = host.server.connect { _ in }
        connection.receive(RequestEncoder.encode(command))
        connection.close()
    }

    /// Deletes or sets the key of a lock.
    func touchLock(_ random: inout SeededRandom) -> StartedFault? {
        guard state.redis.isUp, !state.redis.isStopped, !state.profile.locks.isEmpty else { return nil }
        let name = state.name(ofLock: Int.random(in: state.profile.locks.indices, using: &random))
        let key = keys.lock(name)
        guard let host = server(of: key) else { return nil }
        if random.happens(0.5) {
            run(["DEL", key], on: host)
            return ({}, "\(name) is deleted")
        }
        run(["SET", key, "foreign-token", "PX", "\(Int64.random(in: 50...900, using: &random))"], on: host)
        return ({}, "\(name) is set")
    }

    /// Deletes the counter of a limit.
    func deleteCounter(_ random: inout SeededRandom) -> StartedFault? {
        guard state.redis.isUp, !state.redis.isStopped else { return nil }
        let index = Int.random(in: state.profile.services.indices, using: &random)
        let service = state.profile.services[index]
        guard !service.limits.isEmpty else { return nil }
        let limit = service.limits[Int.random(in: service.limits.indices, using: &random)]
        let subject: String? =
            limit.isPerSubject ? "t\(Int.random(in: 0..<state.profile.serviceBehavior.tenants, using: &random))" : nil
        let key = keys.rate(service: service.name, of: limit, subject: subject)
        guard let host = server(of: key) else { return nil }
        run(["DEL", key], on: host)
        return ({}, "\(service.name)/\(limit.name)")
    }

    /// Deletes the registry of the fleet.
    func deleteFleet() -> StartedFault? {
        guard let host = server(of: keys.fleet) else { return nil }
        run(["DEL", keys.fleet], on: host)
        return ({}, "the fleet's list is deleted")
    }

    /// Subscribes to every channel until Redis closes the connection.
    func eavesdrop() {
        let connection = state.redis.server.connect { _ in }
        connection.receive("PSUBSCRIBE", "*")
    }
}
