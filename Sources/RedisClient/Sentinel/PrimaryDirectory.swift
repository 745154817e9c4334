internal import Logging
package import NIOCore

/// Asks Sentinels for the primary, listens for failovers, and moves all followers to a new primary immediately.
/// Confined to its event loop. `PrimaryChoice` decides which answers to follow.
///
/// Each Sentinel has two connections: one for queries and one for its messages. Messages may not arrive, so the
/// directory also asks all Sentinels every few seconds, and whenever the connection of a follower ends.
///
/// Source: "Guidelines for Redis clients with support for Redis Sentinel".
package final class PrimaryDirectory {
    private let settings: SentinelSettings
    private let environment: RedisEnvironment
    private var sentinels: [SentinelConnection] = []
    private let followers: ServerGroup
    private var choice: PrimaryChoice
    /// The former primary and the time of the last switch; `nil` once every follower is connected.
    private var switching: (from: PrimaryChoice.Primary, since: NIODeadline)?
    /// The earliest time to log that a Sentinel reports a former primary. Sentinels learn of a failover one by one, so
    /// such reports need no warning at first.
    private var nextFormerPrimaryLogAt = NIODeadline.uptimeNanoseconds(0)
    private var scheduledCheck: Scheduled<Void>?
    private var wasMajorityUnreachable = false
    private var isClosed = false

    /// The number of switches to another primary since the start.
    package private(set) var switchCount = 0
    /// The duration of the last switch, from the first report to the moment when every connection was up; `nil` before
    /// the first switch.
    package private(set) var lastSwitchDuration: Duration?

    /// The interval between queries of all Sentinels while nothing suggests a change.
    private static let checkInterval = TimeAmount.seconds(5)
    /// The time within which every reachable Sentinel learns of a failover.
    private static let failoverPropagationTime = TimeAmount.seconds(10)

    /// Creates a directory; returns `nil` if the configuration does not name Sentinels.
    /// - Parameter configuration: the configuration of the followers. Its TLS settings and timeouts also apply to the
    ///   Sentinels.
    package init?(following configuration: RedisConfiguration, environment: RedisEnvironment) {
        guard case .primary(let settings) = configuration.address else { return nil }
        self.settings = settings
        self.environment = environment
        choice = PrimaryChoice(sentinelCount: settings.sentinels.count)
        followers = ServerGroup(environment: environment)
        sentinels = settings.sentinels.enumerated().map { sentinelIndex, address in
            var sentinel = configuration
            sentinel.address = address
            sentinel.isSentinel = true
            sentinel.database = 0
            sentinel.username = settings.username
            sentinel.password = settings.password
            return SentinelConnection(configuration: sentinel, primary: settings.primary, environment: environment) {
                [weak self] in self?.sentinelAnswered($0, sentinelIndex: sentinelIndex)
            }
        }
    }

    /// Starts to ask the Sentinels. Has no effect after the first call.
    package func start() {
        guard scheduledCheck == nil else { return }
        for sentinel in sentinels { sentinel.start() }
        scheduleCheck()
    }

    /// Closes the connections to the Sentinels permanently.
    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        scheduledCheck?.cancel()
        return .andAllComplete(sentinels.flatMap { $0.close() }, on: environment.eventLoop)
    }

    /// The name of the primary in the Sentinels' configuration.
    package var name: String { settings.primary }
    package var primary: PrimaryChoice.Primary? { choice.primary }
    package var sentinelCount: Int { sentinels.count }
    /// The largest number of replicas that a Sentinel reports; `nil` if no Sentinel has answered.
    package var replicaCount: Int? { sentinels.lazy.compactMap(\.replicaCount).max() }
    /// The number of Sentinels that answer.
    package var answeringCount: Int { choice.answeringCount }

    private func scheduleCheck() {
        scheduledCheck = environment.eventLoop.assumeIsolated().scheduleTask(in: Self.checkInterval) { [weak self] in
            guard let self, !isClosed else { return }
            for sentinel in sentinels { sentinel.ask() }
            scheduleCheck()
        }
    }

    private func sentinelAnswered(_ report: Result<PrimaryChoice.Primary, RedisError>, sentinelIndex: Int) {
        guard case .success(let reported) = report else {
            choice.sentinelLost(sentinelIndex)
            // Notify the waiting followers once, so that they report the error. Their later attempts need no
            // notification.
            if choice.primary == nil, isMajorityUnreachable, !wasMajorityUnreachable { followers.notify { $0.redial() } }
            wasMajorityUnreachable = isMajorityUnreachable
            return
        }
        wasMajorityUnreachable = isMajorityUnreachable
        switch choice.primaryReported(reported, by: sentinelIndex) {
        case .undecided, .unchanged: break
        case .found(let primary):
            nextFormerPrimaryLogAt = environment.eventLoop.now + Self.failoverPropagationTime
            environment.logger.log(.primaryFound, fields(of: primary))
            followers.notify { $0.redial() }
        case .moved(let former, let primary): move(from: former, to: primary)
        case .former(let former): logFormerPrimary(former, reportedBy: sentinelIndex)
        }
    }

    /// Whether the queries of so many Sentinels have failed that the others are not a majority.
    private var isMajorityUnreachable: Bool { sentinels.count { $0.failure == nil } < choice.majority }

    private func move(from former: PrimaryChoice.Primary, to primary: PrimaryChoice.Primary) {
        switchCount += 1
        nextFormerPrimaryLogAt = environment.eventLoop.now + Self.failoverPropagationTime
        switching = (switching?.from ?? former, environment.eventLoop.now)
        let reason = RedisError(.replyLost, "\(primary.address) is now the primary, and \(former.address) is no longer")
        followers.notify { $0.reconnect(because: reason) }
    }

    private func logFormerPrimary(_ former: PrimaryChoice.Primary, reportedBy sentinelIndex: Int) {
        let now = environment.eventLoop.now
        guard now >= nextFormerPrimaryLogAt, let primary = choice.primary else { return }
        nextFormerPrimaryLogAt = now + .minutes(1)
        environment.logger.log(
            .formerPrimary,
            fields(of: primary).merging([
                "sentinel": "\(settings.sentinels[sentinelIndex])", "named": "\(former.address)",
                "named_epoch": "\(former.epoch)",
            ]) { $1 })
    }

    private func fields(of primary: PrimaryChoice.Primary) -> [String: String] {
        ["name": settings.primary, "primary": "\(primary.address)", "epoch": "\(primary.epoch)"]
    }
}

extension PrimaryDirectory: RedisDirectory {
    var checksRole: Bool { true }

    func serverAddress() throws(RedisError) -> RedisConfiguration.Address? {
        if let primary = choice.primary { return primary.address }
        guard isMajorityUnreachable else { return nil }
        throw RedisError(
            .connectionFailed,
            "too few Sentinels report the primary \(settings.primary) (\(choice.answeringCount) of \(sentinels.count), \(choice.majority) required): "
                + (sentinels.lazy.compactMap(\.failure).first?.message ?? "the others do not answer"))
    }

    func add(_ follower: any RedisDirectoryFollower) { followers.add(follower) }
    func remove(_ follower: any RedisDirectoryFollower) { followers.remove(follower) }

    func connectionEstablished(_ follower: any RedisDirectoryFollower, _ dialedServer: DialedServer) {
        followers.connectionEstablished(follower, dialedServer)
        guard let (former, since) = switching, followers.isUpOrIdle else { return }
        switching = nil
        let duration = environment.eventLoop.now - since
        lastSwitchDuration = .nanoseconds(duration.nanoseconds)
        guard let primary = choice.primary else { return }
        environment.logger.log(
            .switched,
            fields(of: primary).merging(["former": "\(former.address)", "took_ms": "\(duration.nanoseconds / 1_000_000)"]) { $1 })
    }

    /// Asks the Sentinels immediately whether there is another primary.
    func connectionLost(_ follower: any RedisDirectoryFollower, because error: RedisError, at dialedServer: DialedServer) {
        followers.connectionLost(follower, because: error, at: dialedServer)
        for sentinel in sentinels { sentinel.ask() }
    }
}

/// One Sentinel, with a connection for queries and one for its messages. Confined to its event loop.
private final class SentinelConnection {
    private let pipeline: RedisPipeline
    private let subscriber: RedisSubscriber
    private let primaryName: String
    private let displayName: String
    private let onReport: (Result<PrimaryChoice.Primary, RedisError>) -> Void
    private var isAsking = false
    /// Whether to ask again after the current query, because its answer may be out of date.
    private var shouldAskAgain = false
    /// The number of replicas that the Sentinel knows; `nil` if it has not reported it.
    private(set) var replicaCount: Int?
    /// The reason that the last query failed; `nil` if it succeeded or no query has ended yet.
    private(set) var failure: RedisError?

    /// The channels on which a Sentinel announces that a failover has promoted another primary.
    private static let channels = ["+switch-master", "+promoted-slave"]

    /// Creates the connections, inactive until `start`.
    /// - Parameter onReport: called with each answer, or with the reason that a query failed.
    init(
        configuration: RedisConfiguration, primary: String, environment: RedisEnvironment,
        onReport: @escaping (Result<PrimaryChoice.Primary, RedisError>) -> Void
    ) {
        primaryName = primary
        displayName = "\(configuration.address)"
        self.onReport = onReport
        pipeline = RedisPipeline(configuration: configuration, environment: environment)
        subscriber = RedisSubscriber(configuration: configuration, channels: Self.channels, environment: environment)
    }

    func start() {
        pipeline.onUp = { [weak self] _ in self?.ask() }
        pipeline.onDown = { [weak self] error in self?.report(.failure(error)) }
        subscriber.onSubscribed = { [weak self] in self?.ask() }
        // The message may concern another primary, but an unnecessary query is cheap.
        subscriber.onMessage = { [weak self] _, _ in self?.ask() }
        pipeline.start()
        subscriber.start()
    }

    func close() -> [EventLoopFuture<Void>] { [pipeline.close(), subscriber.close()] }

    /// Asks for the primary's address. Has no effect without a connection.
    func ask() {
        guard pipeline.isUp else { return }
        guard !isAsking else { return shouldAskAgain = true }
        isAsking = true
        var address: Result<RedisConfiguration.Address?, RedisError>?
        var description: Result<PrimaryDescription.Reply, RedisError>?
        pipeline.send(PrimaryAddress(name: primaryName)) { address = $0 }
        pipeline.send(PrimaryDescription(name: primaryName)) { description = $0 }
        // Query the address twice: the epoch belongs to the address only if that did not change in between.
        pipeline.send(PrimaryAddress(name: primaryName)) { [weak self] secondAddress in
            guard let self else { return }
            isAsking = false
            let isInconsistent = (try? address?.get()) != (try? secondAddress.get())
            if let replicaCount = try? description?.get().replicaCount { self.replicaCount = replicaCount }
            if let result = primary(secondAddress, description), !isInconsistent { report(result) }
            guard shouldAskAgain || isInconsistent else { return }
            shouldAskAgain = false
            ask()
        }
    }

    /// Combines the replies to a query; returns `nil` if one is missing.
    private func primary(
        _ address: Result<RedisConfiguration.Address?, RedisError>, _ description: Result<PrimaryDescription.Reply, RedisError>?
    ) -> Result<PrimaryChoice.Primary, RedisError>? {
        switch (address, description) {
        case (.failure(let error), _) where error.message.contains("unknown command"):
            .failure(
                RedisError(.connectionFailed, "it is not a Sentinel (\(error.message)); use redis://HOST:PORT for a server"))
        case (.failure(let error), _): .failure(error)
        case (.success(nil), _): .failure(RedisError(.connectionFailed, "it knows no primary with that name"))
        case (.success(let address?), .success(let description)?):
            .success(PrimaryChoice.Primary(address, epoch: description.epoch))
        case (.success(_?), .failure(let error)?): .failure(error)
        case (.success(_?), nil): nil
        }
    }

    private func report(_ result: Result<PrimaryChoice.Primary, RedisError>) {
        switch result {
        case .success: failure = nil
        case .failure(let error): failure = RedisError(error.code, "the Sentinel \(displayName): \(error.message)")
        }
        onReport(result)
    }
}
