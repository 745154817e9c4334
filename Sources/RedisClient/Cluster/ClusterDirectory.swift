package import NIOCore

/// Asks the servers of a cluster which of them serves which slots, and tells its followers when that has changed. Confined to its
/// event loop. What it believes is `ClusterView`'s to say.
///
/// The connections that commands go by are asked: one of them every few seconds, and two when anything speaks for a change, chosen at
/// random, for a fleet does not ask one server alone. While none is up, further ones are opened to every server that was ever named.
///
/// Source: "Redis Cluster specification", sections "MOVED Redirection" and "Client connection and redirection handling".
package final class ClusterDirectory {
    package typealias Address = RedisConfiguration.Address

    private struct Follower {
        weak var connection: (any ClusterFollower)?
    }

    private let settings: ClusterSettings
    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private var followers: [Follower] = []
    /// Connections to whoever may know, while none is up that commands go by.
    private var scouts: [RedisPipeline] = []
    private var round: (at: NIODeadline, task: Scheduled<Void>)?
    private var nextRound = NIODeadline.uptimeNanoseconds(0)
    private var isInDoubt = false
    /// Slots that servers have said to be elsewhere, and nobody has been told of yet.
    private var moved: Set<HashSlot> = []
    private var troubledSince: NIODeadline?
    private var isStarted = false
    private var isClosed = false
    /// When the last change was heard of, until every connection is where it belongs.
    private var changing: (since: NIODeadline, primaries: [Address])?

    /// Keeps the connections to each address at one server.
    private var servers: [Address: ServerDirectory] = [:]

    package private(set) var view = ClusterView()
    /// Called with slots that have another primary now, or one where they had none, when the connections have been told.
    package var onSlotsMoved: ((Set<HashSlot>) -> Void)?
    /// Why nothing is known of the cluster, while that is so.
    package private(set) var failure: RedisError?
    /// How often a primary left, and others had its slots, since the start.
    package private(set) var switches = 0
    /// How long the last switch took, from its news to the moment at which every connection was there; `nil`: there was none.
    package private(set) var lastSwitch: Duration?

    /// How often one server is asked although nothing has happened.
    private static let checkInterval = TimeAmount.seconds(5)
    /// How often some are asked while something is wrong, and when that has lasted for longer than a failover takes.
    private static let troubleInterval = TimeAmount.milliseconds(100)
    private static let longTrouble = (after: TimeAmount.minutes(1), interval: TimeAmount.seconds(1))
    /// How often they are asked at most.
    private static let shortestInterval = TimeAmount.milliseconds(50)
    /// How many are asked when anything speaks for a change.
    private static let askedInDoubt = 2

    /// `nil`: the configuration names no cluster.
    package init?(following configuration: RedisConfiguration, environment: RedisEnvironment) {
        guard case .cluster(let settings) = configuration.address else { return nil }
        self.settings = settings
        self.configuration = configuration
        self.environment = environment
    }

    package func start() {
        guard !isStarted else { return }
        isStarted = true
        ask()
    }

    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        round?.task.cancel()
        return .andAllComplete(scouts.map { $0.close() }, on: environment.eventLoop)
    }

    /// Adds a follower, once, and has it read the map.
    func add(_ follower: any ClusterFollower) {
        guard !followers.contains(where: { $0.connection === follower }) else { return }
        followers.append(Follower(connection: follower))
        follower.mapChanged()
    }

    /// The group by which connections to a server of the cluster move together.
    func directory(of address: Address) -> any RedisDirectory {
        if let known = servers[address] { return known }
        servers = servers.filter { !$0.value.isEmpty }
        let server = ServerDirectory(address: address, environment: environment)
        servers[address] = server
        return server
    }

    /// Something speaks for a change: some are asked, soon.
    func doubts() {
        isInDoubt = true
        let due = max(nextRound, environment.eventLoop.now)
        // Cancelling is not free, and every command that is refused comes here.
        if let round, round.at <= due { return }
        planRound(at: due)
    }

    /// A server has refused a command because `primary` serves its slot.
    func moved(_ slot: HashSlot, to primary: Address) {
        doubts()
        guard view.moved(slot, to: primary, now: environment.eventLoop.now) else { return }
        moved.insert(slot)
        guard moved.count == 1 else { return }
        // Many commands are refused at once: they are told of together.
        environment.eventLoop.assumeIsolated().execute { [weak self] in
            guard let self, !isClosed else { return }
            let slots = moved
            moved = []
            view.settle()
            changed(slots: slots)
        }
    }

    /// A follower's connection is up.
    func reached() {
        guard let (since, _) = changing, followers.allSatisfy({ $0.connection?.isSettled ?? true }) else { return }
        finishChange(since: since)
    }

    private func finishChange(since: NIODeadline) {
        guard let former = changing?.primaries else { return }
        changing = nil
        let took = environment.eventLoop.now - since
        lastSwitch = .nanoseconds(took.nanoseconds)
        environment.logger.log(
            .clusterSwitched,
            [
                "epoch": "\(view.epoch)", "former": former.map(\.description).sorted().joined(separator: ","),
                "primaries": view.primaries.map(\.description).joined(separator: ","),
                "took_ms": "\(took.nanoseconds / 1_000_000)",
            ])
    }

    // MARK: Asking

    /// Whom commands go to: those of the follower that came first.
    private var connections: [RedisPipeline] { followers.lazy.compactMap { $0.connection?.asked }.first ?? [] }

    private func planRound(at instant: NIODeadline) {
        guard isStarted, !isClosed else { return }
        round?.task.cancel()
        let task = environment.eventLoop.assumeIsolated().scheduleTask(deadline: instant) { [weak self] () -> Void in self?.ask()
        }
        round = (instant, task)
    }

    private func ask() {
        guard !isClosed else { return }
        round = nil
        let now = environment.eventLoop.now
        nextRound = now + Self.shortestInterval
        let up = connections.filter(\.isUp)
        let isTroubled = up.isEmpty || up.count < connections.count || view.covered < HashSlot.count
        if up.isEmpty {
            if scouts.isEmpty { sendScouts() }
            for scout in scouts where scout.isUp { ask(scout) }
        } else {
            dismissScouts()
            var random = environment.random
            for connection in up.shuffled(using: &random).prefix(isTroubled || isInDoubt ? Self.askedInDoubt : 1) {
                ask(connection)
            }
        }
        isInDoubt = false
        troubledSince = isTroubled ? troubledSince ?? now : nil
        guard let troubledSince else { return planRound(at: now + Self.checkInterval) }
        let isLong = now - troubledSince >= Self.longTrouble.after
        planRound(at: now + (isLong ? Self.longTrouble.interval : Self.troubleInterval))
    }

    private func ask(_ connection: RedisPipeline) {
        var epochs: [String: Int64] = [:]
        // A server that does not tell is believed all the same.
        connection.send(ClusterEpochs()) { epochs = (try? $0.get()) ?? [:] }
        connection.send(ClusterSlots(asked: connection.address)) { [weak self, weak connection] result in
            guard let self, let connection else { return }
            switch result {
            case .success(var answer):
                answer.epochs = epochs
                heard(answer)
            case .failure(let error): failed(error, at: connection)
            }
        }
    }

    private func heard(_ answer: ClusterAnswer) {
        // A server that has just begun, or was made to forget, knows of nobody.
        guard answer.covered > 0 else {
            guard !view.isKnown else { return }
            return unknown(
                because: RedisError(.connectionFailed, "the cluster has no slots yet: its servers have not been joined to one"))
        }
        let wasKnown = view.isKnown
        let former = view.primaries
        let slots = view.heard(answer, now: environment.eventLoop.now)
        failure = nil
        if !wasKnown {
            environment.logger.log(
                .clusterFound,
                ["epoch": "\(view.epoch)", "primaries": view.primaries.map(\.description).joined(separator: ",")])
        }
        guard !slots.isEmpty || former != view.primaries else { return }
        let gone = wasKnown ? former.filter { !view.primaries.contains($0) } : []
        if !gone.isEmpty {
            switches += gone.count
            changing = (environment.eventLoop.now, (changing?.primaries ?? []) + gone)
        }
        changed(slots: slots)
    }

    private func changed(slots: Set<HashSlot>) {
        tell { $0.mapChanged() }
        if !slots.isEmpty { onSlotsMoved?(slots) }
        reached()
    }

    private func failed(_ error: RedisError, at connection: RedisPipeline) {
        guard !view.isKnown else { return }
        if error.message.contains("cluster support disabled") {
            unknown(
                because: RedisError(
                    .connectionFailed, "\(connection.address) is no cluster: give its address as redis:// or rediss://"))
        } else if connection.isUp || scouts.allSatisfy({ $0.lastFailure != nil }) {
            unknown(because: RedisError(error.code, "\(connection.address): \(error.message)"))
        }
    }

    /// Nobody could say where anything is.
    private func unknown(because error: RedisError) {
        failure = error
        tell { $0.remainsUnknown(because: error) }
    }

    private func tell(_ message: (any ClusterFollower) -> Void) {
        followers.removeAll { $0.connection == nil }
        for follower in followers { follower.connection.map(message) }
    }

    // MARK: Scouts

    /// No server is left that could be asked: all that were ever named are tried.
    private func sendScouts() {
        view.forgetEpochs()
        var addresses = settings.seeds
        for address in view.primaries + view.replicas where !addresses.contains(address) { addresses.append(address) }
        scouts = addresses.prefix(2 * ClusterSettings.most).map { address in
            let scout = RedisPipeline(configuration: configuration.server(at: address, of: view), environment: environment)
            scout.onUp = { [weak self] in self?.ask($0) }
            scout.onDown = { [weak self, weak scout] error in
                guard let self, let scout else { return }
                failed(error, at: scout)
            }
            scout.start()
            return scout
        }
    }

    private func dismissScouts() {
        guard !scouts.isEmpty else { return }
        let dismissed = scouts
        scouts = []
        // Not within a reply to one of them.
        environment.eventLoop.assumeIsolated().execute { for scout in dismissed { _ = scout.close() } }
    }
}

extension RedisConfiguration {
    /// One server of a cluster.
    func server(at address: Address, of view: ClusterView) -> RedisConfiguration {
        var server = self
        server.address = address
        server.serverName = serverName ?? view.names[address]
        server.isOfCluster = true
        return server
    }
}
