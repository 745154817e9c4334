import SimulatedRedis

/// Sends the changes of primaries to their replicas, and the replicas' acknowledgments back. A replica that misses an
/// update, or loses contact with its primary, synchronizes from scratch.
final class ReplicationNetwork {
    /// The silence after which a replica reconnects to its primary.
    private static let timeout: Nanoseconds = .milliseconds(600)
    private static let interval: Nanoseconds = .milliseconds(100)

    /// A replica's connection to its primary.
    private struct Session {
        var number: Int
        var primary: Int
        /// The replica's `RedisHost.incarnation`. A restart ends the session.
        var incarnation: Int
        var lastHeard: Nanoseconds
    }

    /// The replicas that a primary sends to.
    private struct Feed {
        /// The primary's `RedisHost.incarnation`. A restart ends all sessions.
        var incarnation: Int
        /// The replicas, and the numbers of their sessions.
        var receivers: [(replica: Int, session: Int)] = []
    }

    private let hosts: [RedisHost]
    /// The indices of the servers in `hosts`. The other machines are Sentinels.
    private let servers: Range<Int>
    private let backbone: Backbone
    private var sessions: [Int: Session] = [:]
    private var feeds: [Int: Feed] = [:]
    private var lastSession = 0

    init(hosts: [RedisHost], servers: Range<Int>, backbone: Backbone) {
        self.hosts = hosts
        self.servers = servers
        self.backbone = backbone
    }

    /// Starts replication according to the servers' roles, with replicas that are up to date.
    func start() {
        for number in servers {
            let server = hosts[number].server
            server.schedule = { [weak backbone] microseconds, body in
                backbone?.later(number, in: .microseconds(microseconds), body)
            }
            server.onUpdate = { [weak self] in self?.feed($0, of: number) }
            backbone.scheduleRepeatedly(number, every: Self.interval) { [weak self] in self?.tick(number) }
        }
        for number in servers {
            guard let primary = primary(of: number) else { continue }
            linkImmediately(replica: number, of: primary)
        }
    }

    /// Returns the index of the server with this address.
    func number(of address: ServerAddress) -> Int? { servers.first { hosts[$0].name == address.host } }

    /// Returns the primary that a server replicates; `nil` if it is a primary.
    func primary(of number: Int) -> Int? {
        guard case .replica(let address)? = hosts[number].server.replication?.role else { return nil }
        return self.number(of: address)
    }

    /// Returns the replicas that have all of a server's data.
    func replicasUpToDate(with number: Int) -> [Int] {
        servers.filter { replica in
            primary(of: replica) == number && session(of: replica)?.primary == number
                && hosts[replica].server.replication?.offset == hosts[number].server.replication?.offset
        }
    }

    /// Ends a server's sessions after its role has changed.
    func roleChanged(of number: Int) {
        sessions[number] = nil
        feeds[number] = nil
    }

    // MARK: Messages

    /// Links a replica without a delay, as at the beginning of a world.
    private func linkImmediately(replica: Int, of primary: Int) {
        let session = openSession(replica, at: primary)
        hosts[replica].server.load(hosts[primary].server.fullSync(for: address(replica)))
        markLinked(replica, to: primary, session)
    }

    private func markLinked(_ replica: Int, to primary: Int, _ session: Int) {
        sessions[replica] = Session(
            number: session, primary: primary, incarnation: hosts[replica].incarnation, lastHeard: backbone.timeline.now)
    }

    private func session(of replica: Int) -> Session? {
        sessions[replica].flatMap { $0.incarnation == hosts[replica].incarnation ? $0 : nil }
    }

    private func address(_ number: Int) -> ServerAddress { ServerAddress(host: hosts[number].name) }

    private func openSession(_ replica: Int, at primary: Int) -> Int {
        lastSession += 1
        var feed = Feed(
            incarnation: hosts[primary].incarnation, receivers: receivers(of: primary).filter { $0.replica != replica })
        feed.receivers.append((replica: replica, session: lastSession))
        feeds[primary] = feed
        return lastSession
    }

    private func receivers(of primary: Int) -> [(replica: Int, session: Int)] {
        guard let feed = feeds[primary], feed.incarnation == hosts[primary].incarnation else { return [] }
        return feed.receivers
    }

    /// Sends a primary's heartbeat, or reconnects a replica that has lost its primary.
    private func tick(_ number: Int) {
        guard let primary = primary(of: number) else { return sendHeartbeat(of: number) }
        if let session = session(of: number), session.primary == primary,
            backbone.timeline.now - session.lastHeard < Self.timeout
        {
            return
        }
        if sessions[number] != nil {
            sessions[number] = nil
            hosts[number].server.primaryLost()
        }
        backbone.send(from: number, to: primary) { [weak self] in self?.syncRequested(by: number, at: primary) }
    }

    /// Starts the full synchronization that a replica requests.
    private func syncRequested(by replica: Int, at primary: Int) {
        guard self.primary(of: primary) == nil else { return }
        let session = openSession(replica, at: primary)
        let sync = hosts[primary].server.fullSync(for: address(replica))
        backbone.send(from: primary, to: replica) { [weak self] in
            guard let self, self.primary(of: replica) == primary, (sessions[replica]?.number ?? 0) < session else { return }
            markLinked(replica, to: primary, session)
            hosts[replica].server.load(sync)
            acknowledge(by: replica, to: primary)
        }
    }

    private func feed(_ update: ReplicationUpdate, of primary: Int) {
        for (replica, session) in receivers(of: primary) {
            backbone.send(from: primary, to: replica) { [weak self] in
                guard let self, isCurrent(session, of: replica) else { return }
                let server = hosts[replica].server
                // An update that was lost on the way leaves a gap.
                guard update.offset == (server.replication?.offset ?? 0) + 1 else { return disconnect(replica) }
                sessions[replica]?.lastHeard = backbone.timeline.now
                server.apply(update)
                acknowledge(by: replica, to: primary)
            }
        }
    }

    /// Sends the primary's heartbeat, which also reveals gaps.
    private func sendHeartbeat(of primary: Int) {
        let offset = hosts[primary].server.replication?.offset ?? 0
        for (replica, session) in receivers(of: primary) {
            backbone.send(from: primary, to: replica) { [weak self] in
                guard let self, isCurrent(session, of: replica) else { return }
                guard hosts[replica].server.replication?.offset == offset else { return disconnect(replica) }
                sessions[replica]?.lastHeard = backbone.timeline.now
                acknowledge(by: replica, to: primary)
            }
        }
    }

    private func isCurrent(_ session: Int, of replica: Int) -> Bool { self.session(of: replica)?.number == session }

    private func disconnect(_ replica: Int) {
        sessions[replica] = nil
        hosts[replica].server.primaryLost()
    }

    private func acknowledge(by replica: Int, to primary: Int) {
        guard let offset = hosts[replica].server.replication?.offset else { return }
        let address = address(replica)
        backbone.send(from: replica, to: primary) { [weak self] in
            self?.hosts[primary].server.acknowledge(offset, by: address)
        }
    }
}
