import InterlockCore
import RedisClient
import SimulatedRedis

/// A Redis Cluster: primaries with a replica each, and a spare server that has not joined yet. Each server has its own
/// view of the cluster and learns of changes independently.
final class ClusterGroup {
    private static let interval: Int64 = .milliseconds(100)
    /// The range of a replica's pause before it asks for votes.
    private static let jitter = Int64.milliseconds(50)...Int64.milliseconds(200)

    /// The machines: the initial primaries, then the replica of each, then the spare server.
    let hosts: [RedisHost]
    let backbone: Backbone
    let replication: ReplicationNetwork
    let timeline: WorldTimeline
    /// The shard of each server, identified by the shard's first primary. The spare server is a shard of its own.
    let shards: [Int]
    private(set) var members: [ClusterMember]
    private var minds: [ClusterModel]
    private var lives: [Int]
    private var claims: [(version: UInt64, slots: [Int])]

    /// - Parameters:
    ///   - delay: the delay of a message between two machines, in nanoseconds.
    ///   - driftPerBillion: the drift of all clocks, which are synchronized with each other.
    init(
        primaries: Int, timeline: WorldTimeline, delay: ClosedRange<Int64>, random: SeededRandom, driftPerBillion: Int64 = 0
    ) {
        self.timeline = timeline
        let count = 2 * primaries + 1
        let hosts = (0..<count).map { number in
            RedisHost(name: "node-\(number)", timeline: timeline, driftPerBillion: driftPerBillion)
        }
        self.hosts = hosts
        shards = (0..<count).map { $0 == 2 * primaries ? primaries : $0 % primaries }
        backbone = Backbone(hosts: hosts, timeline: timeline, delay: delay, random: random)
        replication = ReplicationNetwork(hosts: hosts, servers: hosts.indices, backbone: backbone)
        let nodes = hosts.enumerated().map { number, host in
            ClusterNode(
                number: number, address: ServerAddress(host: host.name), epoch: number < primaries ? Int64(number + 1) : 0,
                primary: number < primaries || number == 2 * primaries ? nil : number - primaries)
        }
        let members = nodes.map { ClusterMember($0) }
        for member in members.dropLast() {
            for node in nodes.dropLast() { member.know(node) }
            for number in 0..<primaries { member.assign(Self.slotRange(number, of: primaries), to: number) }
            member.currentEpoch = Int64(primaries)
        }
        members[count - 1].isServing = false
        self.members = members
        minds = members.map { ClusterModel(member: $0, now: timeline.now, isNew: true) }
        lives = hosts.map(\.lives)
        claims = members.map { (version: $0.version, slots: $0.slots(of: $0.number)) }
        for (number, host) in hosts.enumerated() {
            let primary = nodes[number].primary.map { nodes[$0].address }
            host.server.replication = Replication(role: primary.map { Replication.Role.replica(of: $0) } ?? .primary)
            host.server.cluster = members[number]
        }
    }

    private static func slotRange(_ number: Int, of primaries: Int) -> Range<Int> {
        (ClusterSlot.count * number / primaries)..<(ClusterSlot.count * (number + 1) / primaries)
    }

    func start() {
        replication.start()
        for number in hosts.indices {
            hosts[number].server.onClusterPublish = { [weak self] in self?.forward($0, from: number) }
            backbone.repeatedly(number, every: Self.interval) { [weak self] in self?.tick(number) }
        }
    }

    // MARK: Lookup

    var spare: Int { hosts.count - 1 }

    /// The primary that serves a hash slot: of several that claim it, the one with the highest epoch. `nil` if none is
    /// running.
    func owner(of slot: Int) -> Int? {
        primaries.filter { members[$0].owner(of: slot) == $0 }.max { members[$0].own.epoch < members[$1].own.epoch }
    }

    /// The running primaries of the cluster.
    var primaries: [Int] {
        hosts.indices.filter { hosts[$0].isRunning && !members[$0].isReplica && members[$0].serves($0) }
    }

    /// The server that has a key's hash slot; the first running primary if the slot has no owner.
    func host(of key: String) -> RedisHost {
        hosts[owner(of: ClusterSlot.of(key)) ?? primaries.first ?? 0]
    }

    /// The running primary of a shard.
    func primary(ofShard shard: Int) -> Int? {
        hosts.indices.filter { shards[$0] == shard && hosts[$0].isRunning && !members[$0].isReplica }
            .max { members[$0].own.epoch < members[$1].own.epoch }
    }

    /// Whether every running server of the cluster serves, and all agree on the owners.
    var isSettled: Bool { isSettled(without: nil) }

    /// Checks the same for all servers except `away`, which must have no hash slots in the view of the others.
    func isSettled(without away: Int?) -> Bool {
        let running = hosts.indices.filter { hosts[$0].isRunning && isInCluster($0) && $0 != away }
        guard let first = running.first, running.allSatisfy({ members[$0].isServing }) else { return false }
        if let away, members[first].serves(away) { return false }
        let owners = members[first].primaries.map { ($0.number, $0.epoch) }
        return running.allSatisfy { number in
            members[number].primaries.map { ($0.number, $0.epoch) }.elementsEqual(owners) { $0 == $1 }
        }
    }

    func isInCluster(_ number: Int) -> Bool { members[number].nodes.count > 1 }

    /// The Redis address in a sidecar's configuration.
    var address: RedisConfiguration.Address {
        .cluster(of: ClusterSettings(seeds: hosts.dropLast().map { .host($0.name, port: ClusterSettings.standardPort) }))
    }

    // MARK: The cluster bus

    private func tick(_ number: Int) {
        let (member, now) = (members[number], timeline.now)
        if lives[number] != hosts[number].lives {
            lives[number] = hosts[number].lives
            minds[number] = ClusterModel(member: member, now: now, isNew: false)
            member.isServing = false
        }
        guard isInCluster(number) else { return }
        for gone in minds[number].newlyFailed(member, now: now) { announce(failureOf: gone, by: number) }
        followOn(number)
        if let ballot = minds[number].ballot(member, now: now, jitter: backbone.draw(Self.jitter)) { collectVotes(ballot) }
        minds[number].updateState(member, now: now)
        beat(number)
    }

    private func others(_ number: Int) -> [Int] { members[number].nodes.map(\.number).filter { $0 != number } }

    func beat(_ number: Int) {
        let member = members[number]
        if claims[number].version != member.version { claims[number] = (member.version, member.slots(of: number)) }
        let beat = ClusterModel.Heartbeat(
            node: member.own, currentEpoch: member.currentEpoch, slots: claims[number].slots, version: member.version,
            suspects: minds[number].suspects(member, now: timeline.now))
        for other in others(number) {
            backbone.send(from: number, to: other) { [weak self] in self?.received(beat, at: other) }
        }
    }

    private func received(_ beat: ClusterModel.Heartbeat, at number: Int) {
        let member = members[number]
        guard member.node(beat.node.number) != nil else { return }
        minds[number].received(beat, member, now: timeline.now)
        let taken = minds[number].claims(in: beat, member)
        if !taken.isEmpty { give(taken, to: beat.node.number, at: number) }
    }

    /// Informs a server that another one owns hash slots now. If the server or its primary has none left, it becomes a
    /// replica of the new owner.
    private func give(_ slots: [Int], to owner: Int, at number: Int) {
        let member = members[number]
        let own = member.own.primary ?? number
        let lost = slots.filter { member.owner(of: $0) == own }
        for slot in slots { member.endMove(of: slot) }
        member.assign(slots, to: owner)
        guard !lost.isEmpty, owner != own else { return }
        if !member.serves(own) {
            becomeReplica(number, of: owner)
        } else if own == number {
            hosts[number].server.removeKeys(inSlots: Set(lost))
        }
    }

    func becomeReplica(_ number: Int, of primary: Int) {
        guard number != primary, members[number].own.primary != primary else { return }
        members[number].update(number) { $0.primary = primary }
        members[number].endAllMoves()
        hosts[number].server.demote(to: ServerAddress(host: hosts[primary].name), closesConnections: false)
        replication.roleChanged(of: number)
    }

    /// Makes a replica of a replica follow that one's primary.
    private func followOn(_ number: Int) {
        let member = members[number]
        guard let primary = member.own.primary, let next = member.node(primary)?.primary, next != number else { return }
        becomeReplica(number, of: next)
    }

    private func announce(failureOf gone: Int, by number: Int) {
        minds[number].failed(gone, members[number], now: timeline.now)
        for other in others(number) where other != gone {
            backbone.send(from: number, to: other) { [weak self] in
                guard let self else { return }
                minds[other].failed(gone, members[other], now: timeline.now)
            }
        }
    }

    private func collectVotes(_ ballot: ClusterModel.Ballot) {
        let replica = ballot.replica
        for other in others(replica) {
            backbone.send(from: replica, to: other) { [weak self] in
                guard let self, minds[other].votes(for: ballot, members[other], now: timeline.now) else { return }
                backbone.send(from: other, to: replica) { [weak self] in
                    guard let self,
                        let epoch = minds[replica].gotVote(from: other, epoch: ballot.epoch, members[replica])
                    else { return }
                    takeOver(replica, from: ballot.primary, epoch: epoch)
                }
            }
        }
    }

    private func takeOver(_ replica: Int, from primary: Int, epoch: Int64) {
        let member = members[replica]
        member.update(replica) {
            $0.primary = nil
            $0.epoch = epoch
        }
        member.assign(member.slots(of: primary), to: replica)
        hosts[replica].server.promote(closesConnections: false)
        replication.roleChanged(of: replica)
        minds[replica].updateState(member, now: timeline.now)
        beat(replica)
    }

    private func forward(_ message: PublishedMessage, from number: Int) {
        let primary = members[number].own.primary ?? number
        for other in others(number) {
            if message.isOfShard {
                let node = members[number].node(other)
                guard other == primary || node?.primary == primary else { continue }
            }
            backbone.send(from: number, to: other) { [weak self] in self?.hosts[other].server.deliver(message) }
        }
    }

    // MARK: Membership

    /// Adds a server to the cluster, without hash slots. It knows what the others know.
    func join(_ number: Int) {
        guard !isInCluster(number), let known = primaries.first else { return }
        let member = members[number]
        let guide = members[known]
        for node in guide.nodes { member.know(node) }
        for owner in guide.nodes { member.assign(guide.slots(of: owner.number), to: owner.number) }
        member.currentEpoch = max(member.currentEpoch, guide.currentEpoch)
        for node in guide.nodes { minds[number].met(node.number, now: timeline.now) }
        for other in hosts.indices where other != number && isInCluster(other) {
            members[other].know(member.own)
            minds[other].met(number, now: timeline.now)
        }
    }

    /// Removes a server without hash slots from the cluster, and restarts it empty.
    func leave(_ number: Int) {
        for other in hosts.indices where other != number { members[other].forget(number) }
        hosts[number].crash()
        let node = ClusterNode(number: number, address: ServerAddress(host: hosts[number].name), epoch: 0)
        members[number] = ClusterMember(node)
        members[number].isServing = false
        hosts[number].start(with: .none)
        hosts[number].server.cluster = members[number]
        hosts[number].server.promote(closesConnections: false)
        replication.roleChanged(of: number)
        minds[number] = ClusterModel(member: members[number], now: timeline.now, isNew: true)
        claims[number] = (members[number].version, [])
    }
}
