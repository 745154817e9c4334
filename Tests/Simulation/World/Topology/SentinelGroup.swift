import InterlockCore
import RedisClient
import SimulatedRedis

/// A primary with replicas, and the Sentinels that watch them. Each Sentinel decides independently.
final class SentinelGroup {
    /// The name under which the Sentinels know the primary.
    static let name = "main"
    static let sentinelCount = 3
    private static let quorum = 2
    private static let interval: Nanoseconds = .milliseconds(100)
    private static let helloInterval: Nanoseconds = .milliseconds(300)
    /// The range of a Sentinel's pause before another attempt.
    private static let jitter = Nanoseconds.milliseconds(300)...Nanoseconds.milliseconds(900)

    /// The machines: the servers, then the Sentinels.
    let hosts: [RedisHost]
    let servers: Range<Int>
    let backbone: Backbone
    let replication: ReplicationNetwork
    private var models: [SentinelModel]
    private let timeline: WorldTimeline

    /// Creates a group whose first server is the primary.
    /// - Parameters:
    ///   - delay: the range of a message's delay between two machines.
    ///   - driftPerBillion: the drift of all clocks, which are synchronized with each other.
    init(
        replicas: Int, timeline: WorldTimeline, delay: ClosedRange<Nanoseconds>, random: SeededRandom,
        driftPerBillion: Int64 = 0
    ) {
        self.timeline = timeline
        let count = 1 + replicas
        servers = 0..<count
        let primary = ServerAddress(host: "redis-0")
        let machines = (0..<count).map { number in
            RedisHost(name: "redis-\(number)", timeline: timeline, driftPerBillion: driftPerBillion)
        }
        let sentinelHosts = (0..<Self.sentinelCount).map { number in
            RedisHost(name: "sentinel-\(number)", timeline: timeline, driftPerBillion: driftPerBillion) { now in
                SimulatedServer(sentinel: SentinelState(name: Self.name, primary: primary, epoch: 0), now: now)
            }
        }
        hosts = machines + sentinelHosts
        backbone = Backbone(hosts: hosts, timeline: timeline, delay: delay, random: random)
        replication = ReplicationNetwork(hosts: hosts, servers: servers, backbone: backbone)
        models = (0..<Self.sentinelCount).map { number in
            SentinelModel(
                number: number, sentinels: Self.sentinelCount, quorum: Self.quorum, servers: count, primary: 0, now: timeline.now)
        }
        for (number, host) in machines.enumerated() {
            host.server.replication = Replication(role: number == 0 ? .primary : .replica(of: primary))
        }
    }

    func start() {
        replication.start()
        for sentinel in models.indices {
            backbone.scheduleRepeatedly(machine(sentinel), every: Self.interval) { [weak self] in self?.tick(sentinel) }
            backbone.scheduleRepeatedly(machine(sentinel), every: Self.helloInterval) { [weak self] in
                self?.sendHello(sentinel)
            }
        }
    }

    // MARK: Lookup

    /// Returns the index of a Sentinel's machine in `hosts`.
    func machine(_ sentinel: Int) -> Int { servers.count + sentinel }

    var sentinels: [RedisHost] { Array(hosts[servers.count...]) }

    /// The primary according to the Sentinel with the highest configuration epoch.
    var primaryNumber: Int { models.max { $0.configEpoch < $1.configEpoch }?.announcedPrimary ?? 0 }
    var primary: RedisHost { hosts[primaryNumber] }

    /// Returns the primary that a Sentinel reports.
    func announcedPrimary(by sentinel: Int) -> RedisHost { hosts[models[sentinel].announcedPrimary] }

    /// Whether the primary has that role, and every running Sentinel knows it.
    var isStable: Bool {
        let primary = primaryNumber
        return hosts[primary].isRunning && replication.primary(of: primary) == nil
            && models.allSatisfy { !hosts[machine($0.number)].isRunning || $0.primary == primary && $0.isIdle }
    }

    /// The Redis address in a sidecar's configuration.
    var address: RedisConfiguration.Address {
        .primary(
            of: SentinelSettings(
                sentinels: sentinels.map { .host($0.name, port: SentinelSettings.standardPort) }, primary: Self.name))
    }

    /// Cuts a server off from all Sentinels and other servers. Clients still reach it.
    func isolate(_ server: Int) { backbone.isolate(server) }

    // MARK: Sentinels

    private func tick(_ sentinel: Int) {
        for server in servers { probe(server, by: sentinel) }
        perform(models[sentinel].tick(now: timeline.now, jitter: backbone.draw(Self.jitter)), of: sentinel)
    }

    /// Sends `PING` and `INFO`. A stopped server answers when it resumes.
    private func probe(_ server: Int, by sentinel: Int) {
        backbone.send(from: machine(sentinel), to: server) { [weak self] in
            guard let self else { return }
            let follows = replication.primary(of: server)
            let offset = hosts[server].server.replication?.offset ?? 0
            backbone.send(from: server, to: machine(sentinel)) { [weak self] in
                guard let self else { return }
                models[sentinel].replyReceived(server, follows: follows, offset: offset, now: timeline.now)
            }
        }
    }

    /// Sends the hello message that Sentinels exchange regularly.
    private func sendHello(_ sentinel: Int) {
        let model = models[sentinel]
        let announcedPrimary = model.announcedPrimary
        for other in models.indices where other != sentinel {
            backbone.send(from: machine(sentinel), to: machine(other)) { [weak self] in
                guard let self else { return }
                let actions = models[other].received(
                    primary: announcedPrimary, epoch: model.configEpoch, currentEpoch: model.currentEpoch, now: timeline.now)
                perform(actions, of: other)
            }
        }
    }

    /// Asks the other Sentinels for their opinions, and perhaps for their votes.
    private func ask(_ sentinel: Int, epoch: Int64, wantsVote: Bool) {
        let primary = models[sentinel].primary
        for other in models.indices where other != sentinel {
            backbone.send(from: machine(sentinel), to: machine(other)) { [weak self] in
                guard let self else { return }
                let vote = models[other].voteRequested(
                    by: sentinel, about: primary, epoch: epoch, wantsVote: wantsVote, now: timeline.now,
                    jitter: backbone.draw(Self.jitter))
                backbone.send(from: machine(other), to: machine(sentinel)) { [weak self] in
                    guard let self else { return }
                    models[sentinel].voteReceived(vote, by: other, now: timeline.now)
                }
            }
        }
    }

    private func perform(_ actions: [SentinelModel.Action], of sentinel: Int) {
        updateReportedState(of: sentinel)
        for action in actions {
            switch action {
            case .ask(let epoch, let wantsVote): ask(sentinel, epoch: epoch, wantsVote: wantsVote)
            case .promote(let server):
                backbone.send(from: machine(sentinel), to: server) { [weak self] in self?.promote(server) }
            case .follow(let server, let primary):
                backbone.send(from: machine(sentinel), to: server) { [weak self] in self?.demote(server, to: primary) }
            case .reportPromoted(let server):
                let primary = hosts[models[sentinel].primary].name
                publish(
                    "slave \(hosts[server].name):6379 \(hosts[server].name) 6379 @ \(Self.name) \(primary) 6379",
                    on: "+promoted-slave", by: sentinel)
            case .reportSwitch(let former, let primary):
                publish(
                    "\(Self.name) \(hosts[former].name) 6379 \(hosts[primary].name) 6379", on: "+switch-master", by: sentinel)
            }
        }
    }

    /// Updates the state that a Sentinel's server reports to clients.
    private func updateReportedState(of sentinel: Int) {
        let model = models[sentinel]
        hosts[machine(sentinel)].server.sentinel = SentinelState(
            name: Self.name, primary: ServerAddress(host: hosts[model.announcedPrimary].name), epoch: model.configEpoch)
    }

    private func publish(_ message: String, on channel: String, by sentinel: Int) {
        hosts[machine(sentinel)].server.publish(message, on: channel)
    }

    // MARK: Roles

    private func promote(_ server: Int) {
        guard replication.primary(of: server) != nil else { return }
        hosts[server].server.promote(closesConnections: true)
        replication.roleChanged(of: server)
    }

    /// Turns a server into a replica, as `SLAVEOF` does.
    func demote(_ server: Int, to primary: Int) {
        guard server != primary, replication.primary(of: server) != primary else { return }
        hosts[server].server.demote(to: ServerAddress(host: hosts[primary].name), closesConnections: true)
        replication.roleChanged(of: server)
    }
}
