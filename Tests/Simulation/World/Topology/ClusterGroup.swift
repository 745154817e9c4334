import InterlockCore
import RedisClient
import SimulatedRedis

/// A Redis Cluster: primaries with a replica each, and a spare server that has not joined yet. Each server has its own
/// view of the cluster and learns of changes independently.
final class ClusterGroup {
    private static let interval: Nanoseconds = .milliseconds(100)
    /// The range of a replica's pause before it asks for votes.
    private static let jitter = Nanoseconds.milliseconds(50)...Nanoseconds.milliseconds(200)

    /// The machines: the initial primaries, then the replica of each, then the spare server.
    let hosts: [RedisHost]
    let backbone: Backbone
    let replication: ReplicationNetwork
    let timeline: WorldTimeline
    /// The shard of each server, identified by the shard's first primary. The spare server is a separate shard.
    let shards: [Int]
    private(set) var members: [ClusterMember]
    private var models: [ClusterModel]
    private var incarnations: [Int]
    private var claims: [(version: UInt64, slots: [Int])]

    /// Creates a cluster whose hash slots are evenly divided among the primaries.
    /// - Parameters:
    ///   - delay: the range of a message's delay between two machines.
    ///   - driftPerBillion: the drift of all clocks, which are synchronized with each other.
    init(
        primaries: Int, timeline: WorldTimeline, delay: ClosedRange<Nanoseconds>, random: SeededRandom,
        driftPerBillion: Int64 = 0
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
            for node in nodes.dropLast() { member.learn(node) }
            for number in 0..<primaries { member.assign(Self.slotRange(number, of: primaries), to: number) }
            member.currentEpoch = Int64(primaries)
        }
        members[count - 1].isServing = false
        self.members = members
        models = members.map { ClusterModel(member: $0, now: timeline.now, isNew: true) }
        incarnations = hosts.map(\.incarnation)
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
            backbone.scheduleRepeatedly(number, every: Self.interval) { [weak self] in self?.tick(number) }
        }
    }

    // MARK: Lookup

    /// The number of the spare server.
    var spare: Int { hosts.count - 1 }

    /// Returns the primary with the highest epoch of those that claim a hash slot; `nil` if no running primary claims
    /// it.
    func owner(of slot: Int) -> Int? {
        primaries.filter { members[$0].owner(of: slot) == $0 }.max { members[$0].myself.epoch < members[$1].myself.epoch }
    }

    /// The running primaries of the cluster.
    var primaries: [Int] {
        hosts.indices.filter { hosts[$0].isRunning && !members[$0].isReplica && members[$0].serves($0) }
    }

    /// Returns the server that has a key's hash slot; the first running primary if the slot has no owner.
    func host(of key: String) -> RedisHost {
        hosts[owner(of: ClusterSlot.of(key)) ?? primaries.first ?? 0]
    }

    /// Returns the running primary of a shard.
    func primary(ofShard shard: Int) -> Int? {
        hosts.indices.filter { shards[$0] == shard && hosts[$0].isRunning && !members[$0].isReplica }
            .max { members[$0].myself.epoch < members[$1].myself.epoch }
    }

    /// Whether every running server of the cluster serves, and all agree on the owners.
    var isStable: Bool { isStable(without: nil) }

    /// Returns whether the cluster is stable apart from `excluded`, which must have no hash slots in the others' view.
    func isStable(without excluded: Int?) -> Bool {
        let running = hosts.indices.filter { hosts[$0].isRunning && isInCluster($0) && $0 != excluded }
        guard let first = running.first, running.allSatisfy({ members[$0].isServing }) else { return false }
        if let excluded, members[first].serves(excluded) { return false }
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
        if incarnations[number] != hosts[number].incarnation {
            incarnations[number] = hosts[number].incarnation
            models[number] = ClusterModel(member: member, now: now, isNew: false)
            member.isServing = false
        }
        guard isInCluster(number) else { return }
        for failedServer in models[number].newlyFailed(member, now: now) { announce(failureOf: failedServer, by: number) }
        followNewPrimary(number)
        if let ballot = models[number].ballot(member, now: now, jitter: backbone.draw(Self.jitter)) { collectVotes(ballot) }
        models[number].updateState(member, now: now)
        sendHeartbeat(number)
    }

    private func others(_ number: Int) -> [Int] { members[number].nodes.map(\.number).filter { $0 != number } }

    func sendHeartbeat(_ number: Int) {
        let member = members[number]
        if claims[number].version != member.version { claims[number] = (member.version, member.slots(of: number)) }
        let heartbeat = ClusterModel.Heartbeat(
            node: member.myself, currentEpoch: member.currentEpoch, slots: claims[number].slots, version: member.version,
            suspects: models[number].suspects(member, now: timeline.now))
        for other in others(number) {
            backbone.send(from: number, to: other) { [weak self] in self?.heartbeatReceived(heartbeat, at: other) }
        }
    }

    private func heartbeatReceived(_ heartbeat: ClusterModel.Heartbeat, at number: Int) {
        let member = members[number]
        guard member.node(heartbeat.node.number) != nil else { return }
        models[number].received(heartbeat, member, now: timeline.now)
        let claimedSlots = models[number].claims(in: heartbeat, member)
        if !claimedSlots.isEmpty { reassign(claimedSlots, to: heartbeat.node.number, at: number) }
    }

    /// Records at one server that another one owns these hash slots now. If the server, or its primary, has lost its
    /// last slot, it becomes a replica of the new owner.
    private func reassign(_ slots: [Int], to owner: Int, at number: Int) {
        let member = members[number]
        let formerOwner = member.myself.primary ?? number
        let lostSlots = slots.filter { member.owner(of: $0) == formerOwner }
        for slot in slots { member.endMove(of: slot) }
        member.assign(slots, to: owner)
        guard !lostSlots.isEmpty, owner != formerOwner else { return }
        if !member.serves(formerOwner) {
            becomeReplica(number, of: owner)
        } else if formerOwner == number {
            hosts[number].server.removeKeys(inSlots: Set(lostSlots))
        }
    }

    func becomeReplica(_ number: Int, of primary: Int) {
        guard number != primary, members[number].myself.primary != primary else { return }
        members[number].update(number) { $0.primary = primary }
        members[number].endAllMoves()
        hosts[number].server.demote(to: ServerAddress(host: hosts[primary].name), closesConnections: false)
        replication.roleChanged(of: number)
    }

    /// Makes a replica follow another primary if its primary has become a replica itself.
    private func followNewPrimary(_ number: Int) {
        let member = members[number]
        guard let primary = member.myself.primary, let next = member.node(primary)?.primary, next != number else { return }
        becomeReplica(number, of: next)
    }

    private func announce(failureOf failedServer: Int, by number: Int) {
        models[number].markDown(failedServer, members[number], now: timeline.now)
        for other in others(number) where other != failedServer {
            backbone.send(from: number, to: other) { [weak self] in
                guard let self else { return }
                models[other].markDown(failedServer, members[other], now: timeline.now)
            }
        }
    }

    private func collectVotes(_ ballot: ClusterModel.Ballot) {
        let replica = ballot.replica
        for other in others(replica) {
            backbone.send(from: replica, to: other) { [weak self] in
                guard let self, models[other].votes(for: ballot, members[other], now: timeline.now) else { return }
                backbone.send(from: other, to: replica) { [weak self] in
                    guard let self,
                        let epoch = models[replica].receivedVote(from: other, epoch: ballot.epoch, members[replica])
                    else { return }
                    takeOver(replica, from: ballot.primary, epoch: epoch)
                }
            }
        }
    }

    /// Makes a replica that has won its election the primary.
    private func takeOver(_ replica: Int, from primary: Int, epoch: Int64) {
        let member = members[replica]
        member.update(replica) {
            $0.primary = nil
            $0.epoch = epoch
        }
        member.assign(member.slots(of: primary), to: replica)
        hosts[replica].server.promote(closesConnections: false)
        replication.roleChanged(of: replica)
        models[replica].updateState(member, now: timeline.now)
        sendHeartbeat(replica)
    }

    /// Forwards a published message to the other servers.
    private func forward(_ message: PublishedMessage, from number: Int) {
        let primary = members[number].myself.primary ?? number
        for other in others(number) {
            if message.isSharded {
                let node = members[number].node(other)
                guard other == primary || node?.primary == primary else { continue }
            }
            backbone.send(from: number, to: other) { [weak self] in self?.hosts[other].server.deliver(message) }
        }
    }

    // MARK: Membership

    /// Adds a server to the cluster, without hash slots. It starts with the view of one of the primaries.
    func join(_ number: Int) {
        guard !isInCluster(number), let contact = primaries.first else { return }
        let member = members[number]
        let contactView = members[contact]
        for node in contactView.nodes { member.learn(node) }
        for owner in contactView.nodes { member.assign(contactView.slots(of: owner.number), to: owner.number) }
        member.currentEpoch = max(member.currentEpoch, contactView.currentEpoch)
        for node in contactView.nodes { models[number].recordContact(node.number, now: timeline.now) }
        for other in hosts.indices where other != number && isInCluster(other) {
            members[other].learn(member.myself)
            models[other].recordContact(number, now: timeline.now)
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
        models[number] = ClusterModel(member: members[number], now: timeline.now, isNew: true)
        claims[number] = (members[number].version, [])
    }
}
