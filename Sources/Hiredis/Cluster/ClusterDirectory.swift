package import NIOCore

/// Asks the servers of a cluster which of them serves which slots, and tells its followers when that has changed. Confined to its
/// event loop. What it believes is `ClusterView`'s to say.
///
/// The connections that commands go by are asked: one of them every few seconds, and all when anything speaks for a change. While none
/// is up, further ones are opened to every server that was ever named.
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
    private var round: Scheduled<Void>?
    private var nextRound = NIODeadline.uptimeNanoseconds(0)
    /// Who is asked next while all is well.
    private var turn = 0
    private var unanswered = 0
    private var isInDoubt = false
    private var troubledSince: NIODeadline?
    private var isStarted = false
    private var isClosed = false
    /// When the last change was heard of, until every connection is where it belongs.
    private var changing: (since: NIODeadline, primaries: [Address])?

    package private(set) var view = ClusterView()
    /// Why nothing is known of the cluster, while that is so.
    package private(set) var failure: RedisError?
    /// How often a primary left, and others had its slots, since the start.
    package private(set) var switches = 0
    /// How long the last switch took, from its news to the moment at which every connection was there; `nil`: there was none.
    package private(set) var lastSwitch: Duration?

    /// How often one server is asked although nothing has happened.
    private static let checkInterval = TimeAmount.seconds(5)
    /// How often all are asked while something is wrong, and when that has lasted for longer than a failover takes.
    private static let troubleInterval = TimeAmount.milliseconds(100)
    private static let longTrouble = (after: TimeAmount.minutes(1), interval: TimeAmount.seconds(1))
    /// How often they are asked at most.
    private static let shortestInterval = TimeAmount.milliseconds(20)

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
        round?.cancel()
        return .andAllComplete(scouts.map { $0.close() }, on: environment.eventLoop)
    }

    func add(_ follower: any ClusterFollower) {
        followers.append(Follower(connection: follower))
    }

    /// Something speaks for a change: all are asked, soon.
    func doubts() {
        isInDoubt = true
        planRound(at: nextRound)
    }

    /// A server has refused a command because `primary` serves its slot.
    func moved(_ slot: HashSlot, to primary: Address) {
        if view.moved(slot, to: primary) { tell { $0.mapChanged() } }
        doubts()
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
                "primaries": view.map.primaries.map(\.description).joined(separator: ","),
                "took_ms": "\(took.nanoseconds / 1_000_000)",
            ])
    }

    // MARK: Asking

    /// Whom commands go to: those of the follower that came first.
    private var connections: [RedisPipeline] { followers.lazy.compactMap { $0.connection?.asked }.first ?? [] }

    private func planRound(at instant: NIODeadline) {
        guard isStarted, !isClosed else { return }
        round?.cancel()
        round = environment.eventLoop.assumeIsolated().scheduleTask(deadline: instant) { [weak self] in self?.ask() }
    }

    private func ask() {
        guard !isClosed else { return }
        let now = environment.eventLoop.now
        nextRound = now + Self.shortestInterval
        let up = connections.filter(\.isUp)
        let isTroubled = up.isEmpty || up.count < connections.count || view.map.covered < HashSlot.count || unanswered > 0
        if up.isEmpty {
            if scouts.isEmpty { sendScouts() }
            for scout in scouts where scout.isUp { ask(scout) }
        } else {
            dismissScouts()
            turn += 1
            for connection in isTroubled || isInDoubt ? up : [up[turn % up.count]] { ask(connection) }
        }
        isInDoubt = false
        troubledSince = isTroubled ? troubledSince ?? now : nil
        guard let troubledSince else { return planRound(at: now + Self.checkInterval) }
        let isLong = now - troubledSince >= Self.longTrouble.after
        planRound(at: now + (isLong ? Self.longTrouble.interval : Self.troubleInterval))
    }

    private func ask(_ connection: RedisPipeline) {
        var epoch: Result<Int64, RedisError>?
        unanswered += 1
        connection.send(ClusterEpoch()) { epoch = $0 }
        connection.send(ClusterSlots(asked: connection.address)) { [weak self, weak connection] slots in
            guard let self, let connection else { return }
            unanswered -= 1
            switch (epoch, slots) {
            case (.success(let epoch)?, .success(let map)): heard(map, epoch: epoch)
            case (_, .failure(let error)), (.failure(let error)?, _): failed(error, at: connection)
            case (nil, .success): break
            }
        }
    }

    private func heard(_ map: SlotMap, epoch: Int64) {
        // A server that has just begun, or was made to forget, knows of nobody.
        guard map.covered > 0 || !view.isKnown else { return doubts() }
        guard map.covered > 0 else {
            failure = RedisError(.connectionFailed, "the cluster has no slots yet: its servers have not been joined to one")
            return
        }
        let former = view.map.primaries
        let wasKnown = view.isKnown
        guard view.heard(map, epoch: epoch) == .changed else { return }
        failure = nil
        let gone = former.filter { !map.primaries.contains($0) }
        if !wasKnown {
            environment.logger.log(
                .clusterFound,
                ["epoch": "\(epoch)", "primaries": map.primaries.map(\.description).joined(separator: ",")])
        } else if !gone.isEmpty {
            switches += gone.count
            changing = (environment.eventLoop.now, (changing?.primaries ?? []) + gone)
        }
        tell { $0.mapChanged() }
        reached()
    }

    private func failed(_ error: RedisError, at connection: RedisPipeline) {
        guard !view.isKnown else { return }
        if error.message.contains("cluster support disabled") {
            failure = RedisError(
                .connectionFailed, "\(connection.address) is no cluster: give its address as redis:// or rediss://")
        } else if connection.isUp || scouts.allSatisfy({ $0.lastFailure != nil }) {
            failure = RedisError(error.code, "\(connection.address): \(error.message)")
        }
    }

    private func tell(_ message: (any ClusterFollower) -> Void) {
        followers.removeAll { $0.connection == nil }
        for follower in followers { follower.connection.map(message) }
    }

    // MARK: Scouts

    /// No server is left that could be asked: all that were ever named are tried.
    private func sendScouts() {
        view.forgetEpoch()
        var addresses = settings.seeds
        for address in view.map.primaries + view.map.replicas where !addresses.contains(address) { addresses.append(address) }
        scouts = addresses.prefix(2 * ClusterSettings.most).map { address in
            let scout = RedisPipeline(configuration: configuration.server(at: address), environment: environment)
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

/// Connections to a cluster, one for each primary.
package protocol ClusterFollower: AnyObject {
    /// Which primaries there are, or what they serve, has changed.
    func mapChanged()
    /// Whether it is connected to every primary.
    var isSettled: Bool { get }
    /// The connections that can be asked which servers the cluster has; `nil`: they are for something else.
    var asked: [RedisPipeline]? { get }
}

extension ClusterFollower {
    package var asked: [RedisPipeline]? { nil }
}

extension RedisConfiguration {
    /// One server of the cluster.
    func server(at address: Address) -> RedisConfiguration {
        var server = self
        server.address = address
        server.isOfCluster = true
        return server
    }
}
