package import NIOCore

/// Queries the servers of a cluster for its slot map and notifies its followers of changes. Confined to its event loop.
/// `ClusterView` decides which slot maps to trust.
///
/// Queries share the connections that carry commands: one connection every few seconds, and two as soon as anything
/// suggests a change. The choice is random, so that the members of a fleet do not all query the same server. While no
/// such connection is up, the directory opens connections to every server of the configuration or the known slot map.
///
/// Source: "Redis Cluster specification", sections "MOVED Redirection" and "Client connection and redirection
/// handling".
package final class ClusterDirectory {
    package typealias Address = RedisConfiguration.Address

    private struct Follower {
        weak var connection: (any ClusterFollower)?
    }

    private let settings: ClusterSettings
    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private var followers: [Follower] = []
    /// Connections to every server that may know the slot map, open only while no command connection is up.
    private var discoveryConnections: [RedisPipeline] = []
    /// The next query, if one is scheduled.
    private var scheduledQuery: (at: NIODeadline, task: Scheduled<Void>)?
    private var earliestNextQuery = NIODeadline.uptimeNanoseconds(0)
    private var isChangeSuspected = false
    /// Hash slots that a `MOVED` error reassigned in this tick. The followers are notified at its end.
    private var movedSlots: Set<HashSlot> = []
    private var degradedSince: NIODeadline?
    private var isStarted = false
    private var isClosed = false
    /// The time of the last change, and the primaries removed since every follower was last connected; `nil` once every
    /// follower is connected again.
    private var ongoingSwitch: (since: NIODeadline, formerPrimaries: [Address])?

    /// The groups of connections by address. The connections of one group all use the same server.
    private var servers: [Address: ServerDirectory] = [:]

    package private(set) var view = ClusterView()
    /// Called with the hash slots that have a new primary, after the followers were notified. Includes slots that had
    /// no primary before.
    package var onSlotsMoved: ((Set<HashSlot>) -> Void)?
    /// The reason that the slot map is unknown; `nil` if it is known or has not been queried.
    package private(set) var failure: RedisError?
    /// The number of primaries that were replaced by others since the start.
    package private(set) var switchCount = 0
    /// The duration of the last switch, from the first report to the moment when every connection was up; `nil` before
    /// the first switch.
    package private(set) var lastSwitchDuration: Duration?

    /// The interval between queries of one server while nothing suggests a change.
    private static let checkInterval = TimeAmount.seconds(5)
    /// The interval between queries while the cluster is degraded.
    private static let degradedInterval = TimeAmount.milliseconds(100)
    /// The longer interval that applies once the cluster has been degraded for longer than a failover takes.
    private static let longDegraded = (after: TimeAmount.minutes(1), interval: TimeAmount.seconds(1))
    /// The minimum interval between queries.
    private static let minimumInterval = TimeAmount.milliseconds(50)
    /// The number of servers to query when anything suggests a change.
    private static let queriesOnSuspicion = 2

    /// Creates the directory of a cluster; returns `nil` if the configuration does not name a cluster.
    package init?(following configuration: RedisConfiguration, environment: RedisEnvironment) {
        guard case .cluster(let settings) = configuration.address else { return nil }
        self.settings = settings
        self.configuration = configuration
        self.environment = environment
    }

    /// Starts to query the cluster. Has no effect after the first call.
    package func start() {
        guard !isStarted else { return }
        isStarted = true
        query()
    }

    /// Stops querying, and closes the connections that only discover servers.
    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        scheduledQuery?.task.cancel()
        return .andAllComplete(discoveryConnections.map { $0.close() }, on: environment.eventLoop)
    }

    /// Adds a follower, unless it was added before, and notifies it of the current slot map.
    func add(_ follower: any ClusterFollower) {
        guard !followers.contains(where: { $0.connection === follower }) else { return }
        followers.append(Follower(connection: follower))
        follower.slotMapChanged()
    }

    /// Returns the group of connections to a server of the cluster, which reconnect together.
    func directory(of address: Address) -> any RedisDirectory {
        if let existing = servers[address] { return existing }
        servers = servers.filter { !$0.value.isEmpty }
        let server = ServerDirectory(address: address, environment: environment)
        servers[address] = server
        return server
    }

    /// Schedules a query, because something suggests a change.
    func scheduleQuery() {
        isChangeSuspected = true
        let due = max(earliestNextQuery, environment.eventLoop.now)
        // Keep an earlier query: every refused command calls this method, and cancelling has a cost.
        if let scheduledQuery, scheduledQuery.at <= due { return }
        scheduleQuery(at: due)
    }

    /// Records that a server refused a command because `primary` serves its hash slot.
    func recordMove(_ slot: HashSlot, to primary: Address) {
        scheduleQuery()
        guard view.recordMove(slot, to: primary, now: environment.eventLoop.now) else { return }
        movedSlots.insert(slot)
        guard movedSlots.count == 1 else { return }
        // Servers refuse many commands in the same tick, so the followers are notified once per tick.
        environment.eventLoop.assumeIsolated().execute { [weak self] in
            guard let self, !isClosed else { return }
            let slots = movedSlots
            movedSlots = []
            view.dropUnusedPrimaries()
            notifyOfChange(in: slots)
        }
    }

    /// Records that a follower has a new connection. Ends the switch once every follower is fully connected.
    func followerConnected() {
        guard let (since, _) = ongoingSwitch, followers.allSatisfy({ $0.connection?.isFullyConnected ?? true }) else { return }
        finishSwitch(since: since)
    }

    private func finishSwitch(since: NIODeadline) {
        guard let formerPrimaries = ongoingSwitch?.formerPrimaries else { return }
        ongoingSwitch = nil
        let duration = environment.eventLoop.now - since
        lastSwitchDuration = .nanoseconds(duration.nanoseconds)
        environment.logger.log(
            .clusterSwitched,
            [
                "epoch": "\(view.epoch)", "former": formerPrimaries.map(\.description).sorted().joined(separator: ","),
                "primaries": view.primaries.map(\.description).joined(separator: ","),
                "took_ms": "\(duration.nanoseconds / 1_000_000)",
            ])
    }

    // MARK: Queries

    /// The connections of the first follower that provides any.
    private var connections: [RedisPipeline] { followers.lazy.compactMap { $0.connection?.queryConnections }.first ?? [] }

    private func scheduleQuery(at instant: NIODeadline) {
        guard isStarted, !isClosed else { return }
        scheduledQuery?.task.cancel()
        let task = environment.eventLoop.assumeIsolated().scheduleTask(deadline: instant) { [weak self] () -> Void in
            self?.query()
        }
        scheduledQuery = (instant, task)
    }

    private func query() {
        guard !isClosed else { return }
        scheduledQuery = nil
        let now = environment.eventLoop.now
        earliestNextQuery = now + Self.minimumInterval
        let upConnections = connections.filter(\.isUp)
        let isDegraded =
            upConnections.isEmpty || upConnections.count < connections.count || view.coveredSlotCount < HashSlot.count
        if upConnections.isEmpty {
            if discoveryConnections.isEmpty { openDiscoveryConnections() }
            for connection in discoveryConnections where connection.isUp { query(connection) }
        } else {
            closeDiscoveryConnections()
            var random = environment.random
            let queryCount = isDegraded || isChangeSuspected ? Self.queriesOnSuspicion : 1
            for connection in upConnections.shuffled(using: &random).prefix(queryCount) { query(connection) }
        }
        isChangeSuspected = false
        degradedSince = isDegraded ? degradedSince ?? now : nil
        guard let degradedSince else { return scheduleQuery(at: now + Self.checkInterval) }
        let isDegradedForLong = now - degradedSince >= Self.longDegraded.after
        scheduleQuery(at: now + (isDegradedForLong ? Self.longDegraded.interval : Self.degradedInterval))
    }

    private func query(_ connection: RedisPipeline) {
        var epochs: [String: Int64] = [:]
        // If the server does not report epochs, use its slot map without them.
        connection.send(ClusterEpochs()) { epochs = (try? $0.get()) ?? [:] }
        connection.send(ClusterSlots(queried: connection.address)) { [weak self, weak connection] result in
            guard let self, let connection else { return }
            switch result {
            case .success(var slotMap):
                slotMap.epochs = epochs
                slotMapReceived(slotMap)
            case .failure(let error): queryFailed(error, at: connection)
            }
        }
    }

    private func slotMapReceived(_ slotMap: ReportedSlotMap) {
        // A server that has just started or was reset knows no slots.
        guard slotMap.coveredSlotCount > 0 else {
            guard !view.isKnown else { return }
            return slotMapUnavailable(
                because: RedisError(.connectionFailed, "the cluster has no hash slots yet: its servers have not joined"))
        }
        let wasKnown = view.isKnown
        let formerPrimaries = view.primaries
        let slots = view.apply(slotMap, now: environment.eventLoop.now)
        failure = nil
        if !wasKnown {
            environment.logger.log(
                .clusterFound,
                ["epoch": "\(view.epoch)", "primaries": view.primaries.map(\.description).joined(separator: ",")])
        }
        guard !slots.isEmpty || formerPrimaries != view.primaries else { return }
        let removedPrimaries = wasKnown ? formerPrimaries.filter { !view.primaries.contains($0) } : []
        if !removedPrimaries.isEmpty {
            switchCount += removedPrimaries.count
            ongoingSwitch = (
                environment.eventLoop.now, (ongoingSwitch?.formerPrimaries ?? []) + removedPrimaries
            )
        }
        notifyOfChange(in: slots)
    }

    private func notifyOfChange(in slots: Set<HashSlot>) {
        notify { $0.slotMapChanged() }
        if !slots.isEmpty { onSlotsMoved?(slots) }
        followerConnected()
    }

    private func queryFailed(_ error: RedisError, at connection: RedisPipeline) {
        guard !view.isKnown else { return }
        if error.message.contains("cluster support disabled") {
            slotMapUnavailable(
                because: RedisError(
                    .connectionFailed, "\(connection.address) is not a cluster: use redis:// or rediss://"))
        } else if connection.isUp || discoveryConnections.allSatisfy({ $0.lastFailure != nil }) {
            slotMapUnavailable(because: RedisError(error.code, "\(connection.address): \(error.message)"))
        }
    }

    /// Records and reports that no server could provide the slot map.
    private func slotMapUnavailable(because error: RedisError) {
        failure = error
        notify { $0.slotMapUnavailable(because: error) }
    }

    private func notify(_ send: (any ClusterFollower) -> Void) {
        followers.removeAll { $0.connection == nil }
        for follower in followers { follower.connection.map(send) }
    }

    // MARK: Discovery

    /// Opens connections to every server of the configuration and the known slot map.
    private func openDiscoveryConnections() {
        view.forgetEpochs()
        var addresses = settings.seeds
        for address in view.primaries + view.replicas where !addresses.contains(address) { addresses.append(address) }
        discoveryConnections = addresses.prefix(2 * ClusterSettings.maximumCount).map { address in
            let connection = RedisPipeline(configuration: configuration.server(at: address, of: view), environment: environment)
            connection.onUp = { [weak self] in self?.query($0) }
            connection.onDown = { [weak self, weak connection] error in
                guard let self, let connection else { return }
                queryFailed(error, at: connection)
            }
            connection.start()
            return connection
        }
    }

    private func closeDiscoveryConnections() {
        guard !discoveryConnections.isEmpty else { return }
        let connections = discoveryConnections
        discoveryConnections = []
        // Close them in a later tick, because one of them may be delivering a reply.
        environment.eventLoop.assumeIsolated().execute { for connection in connections { _ = connection.close() } }
    }
}

extension RedisConfiguration {
    /// Returns the configuration of one server of a cluster.
    func server(at address: Address, of view: ClusterView) -> RedisConfiguration {
        var server = self
        server.address = address
        server.serverName = serverName ?? view.hostNames[address]
        server.isOfCluster = true
        return server
    }
}
