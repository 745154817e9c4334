import InterlockCore
import InterlockJudge
import SimulatedRedis

/// Faults of a Redis deployment on several machines.
final class TopologyFaults {
    /// The maximum time that a server may be down without being replaced, in milliseconds.
    static let maximumOutageMilliseconds: Int64 = 300
    /// The minimum time for which the server is up before the next outage, in milliseconds.
    static let minimumUptimeMilliseconds: Int64 = 2000
    /// The maximum time from the beginning of a failover until everything is healthy again, in milliseconds.
    static let failoverMilliseconds: Int64 = 12_000

    private static let interval: Nanoseconds = .milliseconds(50)

    private let machines: RedisMachines
    private let timeline: WorldTimeline

    init(machines: RedisMachines, timeline: WorldTimeline) {
        self.machines = machines
        self.timeline = timeline
    }

    // MARK: Failovers

    /// Kills a primary, stops it, or cuts it off from all but clients until another server replaces it. The former
    /// primary then returns and considers itself the primary until it becomes a replica. Calls `completion` once it is
    /// a replica and all servers know the new primary.
    func failover(completion: @escaping () -> Void, _ random: inout SeededRandom) -> StartedFault? {
        switch machines {
        case .single: return nil
        case .sentinels(let group):
            let former = group.primaryNumber
            let others = group.servers.filter { $0 != former }
            guard group.isStable, others.contains(where: { group.hosts[$0].isRunning }) else { return nil }
            return takeDown(
                former, of: group.hosts, group.backbone, &random, replicas: others.filter { group.hosts[$0].isRunning },
                isReplaced: { group.primaryNumber != former && group.hosts[group.primaryNumber].isRunning && group.isStable },
                isRestored: { group.isStable && group.replication.primary(of: former) != nil },
                completion: completion)
        case .cluster(let group):
            let candidates = group.primaries.filter { number in
                group.hosts.indices.contains { group.members[$0].myself.primary == number && group.hosts[$0].isRunning }
            }
            guard !candidates.isEmpty, group.isStable else { return nil }
            let former = candidates[Int.random(in: candidates.indices, using: &random)]
            return takeDown(
                former, of: group.hosts, group.backbone, &random,
                isReplaced: { group.isStable(without: former) },
                isRestored: { group.isStable && group.members[former].isReplica },
                completion: completion)
        }
    }

    /// Takes a primary down until another server replaces it. Returns the action that ends the outage.
    private func takeDown(
        _ former: Int, of hosts: [RedisHost], _ backbone: Backbone, _ random: inout SeededRandom, replicas: [Int] = [],
        isReplaced: @escaping () -> Bool, isRestored: @escaping () -> Bool, completion: @escaping () -> Void
    ) -> StartedFault {
        let host = hosts[former]
        var description: String
        let outage: () -> Void
        switch Int.random(in: 0..<3, using: &random) {
        case 0:
            outage = { [host] in if host.isUp { host.crash() } }
            description = "\(host.name) is killed"
        case 1:
            outage = { [host] in if host.isUp { host.stop() } }
            description = "\(host.name) is paused"
        default:
            outage = { [backbone] in backbone.isolate(former) }
            description = "\(host.name) can reach only clients"
        }
        if replicas.count > 1, random.happens(0.4) {
            // One replica loses contact with the primary early. It is then the only one that Sentinels can promote.
            let lastContacted = replicas[Int.random(in: replicas.indices, using: &random)]
            let lagMilliseconds = Int64.random(in: 100...1000, using: &random)
            backbone.set(former, lastContacted, isCut: true)
            timeline.schedule(in: .milliseconds(lagMilliseconds)) { [backbone] in
                for replica in replicas where replica != lastContacted { backbone.isolate(replica) }
                outage()
            }
            description +=
                ", \(lagMilliseconds) ms after the last message to \(hosts[lastContacted].name); "
                + "the others are cut off too"
        } else {
            outage()
        }
        let heal = { [weak host, weak backbone] in
            backbone?.restoreAll()
            guard let host else { return }
            if !host.isUp { host.start(with: .all) }
            if host.isStopped { host.resume() }
        }
        when(isReplaced) { [weak self] in
            heal()
            self?.when(isRestored, completion)
        }
        return (heal, description)
    }

    /// Runs `body` once the condition holds. Gives up after `failoverMilliseconds`.
    private func when(
        _ condition: @escaping () -> Bool, since start: Nanoseconds? = nil, _ body: @escaping () -> Void
    ) {
        let start = start ?? timeline.now
        timeline.schedule(in: Self.interval) { [weak self] in
            guard let self, timeline.now - start < .milliseconds(Self.failoverMilliseconds) else { return }
            if condition() { body() } else { when(condition, since: start, body) }
        }
    }

    // MARK: Hash slots

    /// Moves hash slots of a cluster, or makes a server join or leave. Calls `completion` once that is complete.
    func move(_ kind: FaultKind, completion: @escaping () -> Void, _ random: inout SeededRandom) -> StartedFault? {
        guard case .cluster(let group) = machines, !isMoving, group.isStable else { return nil }
        let pause = Int64.random(in: .microseconds(200)...(.milliseconds(8)), using: &random)
        let done = { [weak self] in
            self?.isMoving = false
            completion()
        }
        let move: SlotMove?
        let description: String
        switch kind {
        case .nodeJoin:
            move = group.addSpare(pause: pause, done: done)
            description = "\(group.hosts[group.spare].name) joins"
        case .nodeLeave:
            move = group.removeSpare(pause: pause, done: done)
            description = "\(group.hosts[group.spare].name) leaves"
        default:
            let sources = group.primaries.filter { !group.occupiedSlots(of: $0).isEmpty }
            guard !sources.isEmpty else { return nil }
            let source = sources[Int.random(in: sources.indices, using: &random)]
            let targets = group.primaries.filter { $0 != source }
            guard !targets.isEmpty else { return nil }
            let target = targets[Int.random(in: targets.indices, using: &random)]
            let slots = Array(
                group.occupiedSlots(of: source).shuffled(using: &random).prefix(Int.random(in: 1...6, using: &random)))
            move = group.move(slots, toShard: group.shards[target], pause: pause, done: done)
            description = "hash slots \(slots) move from \(group.hosts[source].name) to \(group.hosts[target].name)"
        }
        guard let move else { return nil }
        isMoving = true
        move.start()
        return ({}, description)
    }

    /// Whether a move is in progress. Two concurrent moves would interfere with each other.
    private var isMoving = false
}
