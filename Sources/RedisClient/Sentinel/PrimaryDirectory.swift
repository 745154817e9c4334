internal import Logging
package import NIOCore

/// Asks Sentinels for the primary, listens for failovers, and moves all followers to a new primary at once. Confined to
/// its event loop. `PrimaryChoice` decides which answers to follow.
///
/// Each Sentinel has two connections: one for queries and one for its messages. Messages can be lost, so all Sentinels
/// are also asked every few seconds and when a follower has lost the server.
///
/// Source: "Guidelines for Redis clients with support for Redis Sentinel".
package final class PrimaryDirectory {
    private let settings: SentinelSettings
    private let environment: RedisEnvironment
    private var sentinels: [SentinelConnection] = []
    private let followers: ServerGroup
    private var choice: PrimaryChoice
    /// The former primary and the time of the last switch, until every follower is connected.
    private var switching: (from: PrimaryChoice.Primary, since: NIODeadline)?
    /// The earliest time to log that a Sentinel names a former primary: after a failover they learn of it one by one.
    private var nextRefusalLogAt = NIODeadline.uptimeNanoseconds(0)
    private var check: Scheduled<Void>?
    private var wasOutOfReach = false
    private var isClosed = false

    /// The number of switches to another primary since the start.
    package private(set) var switches = 0
    /// The duration of the last switch, from the first report to the moment when every connection was up, or `nil` if
    /// there was none.
    package private(set) var lastSwitch: Duration?

    /// The interval between queries of all Sentinels while nothing suggests a change.
    private static let checkInterval = TimeAmount.seconds(5)
    /// The time after which every reachable Sentinel has learned of a failover.
    private static let newsTime = TimeAmount.seconds(10)

    /// Returns `nil` if the configuration names the server itself.
    /// - Parameter configuration: the configuration of the followers, whose TLS settings and times also apply to the
    ///   Sentinels.
    package init?(following configuration: RedisConfiguration, environment: RedisEnvironment) {
        guard case .primary(let settings) = configuration.address else { return nil }
        self.settings = settings
        self.environment = environment
        choice = PrimaryChoice(sentinels: settings.sentinels.count)
        followers = ServerGroup(environment: environment)
        sentinels = settings.sentinels.enumerated().map { number, address in
            var sentinel = configuration
            sentinel.address = address
            sentinel.isSentinel = true
            sentinel.database = 0
            sentinel.username = settings.username
            sentinel.password = settings.password
            return SentinelConnection(configuration: sentinel, primary: settings.primary, environment: environment) {
                [weak self] in self?.answered($0, by: number)
            }
        }
    }

    /// Starts to ask the Sentinels; does nothing if already started.
    package func start() {
        guard check == nil else { return }
        for sentinel in sentinels { sentinel.start() }
        planCheck()
    }

    /// Closes the connections to the Sentinels for good.
    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        check?.cancel()
        return .andAllComplete(sentinels.flatMap { $0.close() }, on: environment.eventLoop)
    }

    /// The name of the primary in the Sentinels' configuration.
    package var name: String { settings.primary }
    package var primary: PrimaryChoice.Primary? { choice.primary }
    package var sentinelCount: Int { sentinels.count }
    /// The number of replicas, from the Sentinel that knows most of them, or `nil` if no Sentinel has answered.
    package var replicas: Int? { sentinels.lazy.compactMap(\.replicas).max() }
    /// The number of Sentinels that answer.
    package var answering: Int { choice.answering }

    private func planCheck() {
        check = environment.eventLoop.assumeIsolated().scheduleTask(in: Self.checkInterval) { [weak self] in
            guard let self, !isClosed else { return }
            for sentinel in sentinels { sentinel.ask() }
            planCheck()
        }
    }

    private func answered(_ answer: Result<PrimaryChoice.Primary, RedisError>, by number: Int) {
        guard case .success(let named) = answer else {
            choice.lost(number)
            // Followers that wait for a majority learn once that there is none; they retry by themselves.
            if choice.primary == nil, isOutOfReach, !wasOutOfReach { followers.notify { $0.dialAgain() } }
            wasOutOfReach = isOutOfReach
            return
        }
        wasOutOfReach = isOutOfReach
        switch choice.received(named, from: number) {
        case .undecided, .unchanged: break
        case .found(let primary):
            nextRefusalLogAt = environment.eventLoop.now + Self.newsTime
            environment.logger.log(.primaryFound, fields(of: primary))
            followers.notify { $0.dialAgain() }
        case .moved(let former, let primary): move(from: former, to: primary)
        case .former(let former): refuse(former, namedBy: number)
        }
    }

    /// Whether too few Sentinels for a majority have answered or are still being asked.
    private var isOutOfReach: Bool { sentinels.count { $0.failure == nil } < choice.majority }

    private func move(from former: PrimaryChoice.Primary, to primary: PrimaryChoice.Primary) {
        switches += 1
        nextRefusalLogAt = environment.eventLoop.now + Self.newsTime
        switching = (switching?.from ?? former, environment.eventLoop.now)
        let reason = RedisError(.answerLost, "\(primary.address) is now the primary, and \(former.address) is no longer")
        followers.notify { $0.leave(because: reason) }
    }

    private func refuse(_ former: PrimaryChoice.Primary, namedBy number: Int) {
        let now = environment.eventLoop.now
        guard now >= nextRefusalLogAt, let primary = choice.primary else { return }
        nextRefusalLogAt = now + .minutes(1)
        environment.logger.log(
            .formerPrimary,
            fields(of: primary).merging([
                "sentinel": "\(settings.sentinels[number])", "named": "\(former.address)", "named_epoch": "\(former.epoch)",
            ]) { $1 })
    }

    private func fields(of primary: PrimaryChoice.Primary) -> [String: String] {
        ["name": settings.primary, "primary": "\(primary.address)", "epoch": "\(primary.epoch)"]
    }
}

extension PrimaryDirectory: RedisDirectory {
    var asksForRole: Bool { true }

    func server() throws(RedisError) -> RedisConfiguration.Address? {
        if let primary = choice.primary { return primary.address }
        guard isOutOfReach else { return nil }
        throw RedisError(
            .connectionFailed,
            "\(choice.answering) of \(sentinels.count) Sentinels know the primary \(settings.primary), and \(choice.majority) are needed: "
                + (sentinels.lazy.compactMap(\.failure).first?.message ?? "the others do not answer"))
    }

    func add(_ follower: any RedisDirectoryFollower) { followers.add(follower) }
    func remove(_ follower: any RedisDirectoryFollower) { followers.remove(follower) }

    func reached(_ follower: any RedisDirectoryFollower, _ arrival: RedisArrival) {
        followers.reached(follower, arrival)
        guard let (former, since) = switching, followers.isSettled else { return }
        switching = nil
        let took = environment.eventLoop.now - since
        lastSwitch = .nanoseconds(took.nanoseconds)
        guard let primary = choice.primary else { return }
        environment.logger.log(
            .switched,
            fields(of: primary).merging(["former": "\(former.address)", "took_ms": "\(took.nanoseconds / 1_000_000)"]) { $1 })
    }

    /// Asks the Sentinels at once whether there is another primary.
    func lost(_ follower: any RedisDirectoryFollower, because error: RedisError, at arrival: RedisArrival) {
        followers.lost(follower, because: error, at: arrival)
        for sentinel in sentinels { sentinel.ask() }
    }
}

/// One Sentinel, with a connection for queries and one for its messages. Confined to its event loop.
private final class SentinelConnection {
    private let pipeline: RedisPipeline
    private let subscriber: RedisSubscriber
    private let name: String
    private let displayName: String
    private let answer: (Result<PrimaryChoice.Primary, RedisError>) -> Void
    private var isAsking = false
    /// Whether something happened during the current query, whose answer may be older than that.
    private var asksAgain = false
    /// The number of replicas that the Sentinel knows of, or `nil` if it has not reported it.
    private(set) var replicas: Int?
    /// The reason that the last query failed, or `nil` if it succeeded or none has ended yet.
    private(set) var failure: RedisError?

    /// The channels on which a Sentinel publishes that a failover has promoted another primary.
    private static let channels = ["+switch-master", "+promoted-slave"]

    /// - Parameter answer: called with each answer, or with the reason that there is none.
    init(
        configuration: RedisConfiguration, primary: String, environment: RedisEnvironment,
        answer: @escaping (Result<PrimaryChoice.Primary, RedisError>) -> Void
    ) {
        name = primary
        displayName = "\(configuration.address)"
        self.answer = answer
        pipeline = RedisPipeline(configuration: configuration, environment: environment)
        subscriber = RedisSubscriber(configuration: configuration, channels: Self.channels, environment: environment)
    }

    func start() {
        pipeline.onUp = { [weak self] _ in self?.ask() }
        pipeline.onDown = { [weak self] error in self?.report(.failure(error)) }
        subscriber.onSubscribed = { [weak self] in self?.ask() }
        // The message may concern another primary, but an unnecessary query costs nothing.
        subscriber.onMessage = { [weak self] _, _ in self?.ask() }
        pipeline.start()
        subscriber.start()
    }

    func close() -> [EventLoopFuture<Void>] { [pipeline.close(), subscriber.close()] }

    /// Asks for the primary's address; does nothing without a connection.
    func ask() {
        guard pipeline.isUp else { return }
        guard !isAsking else { return asksAgain = true }
        isAsking = true
        var address: Result<RedisConfiguration.Address?, RedisError>?
        var description: Result<PrimaryDescription.Reply, RedisError>?
        pipeline.send(PrimaryAddress(name: name)) { address = $0 }
        pipeline.send(PrimaryDescription(name: name)) { description = $0 }
        // The address is asked for twice: the epoch belongs to it only if it did not change in between.
        pipeline.send(PrimaryAddress(name: name)) { [weak self] again in
            guard let self else { return }
            isAsking = false
            let isTorn = (try? address?.get()) != (try? again.get())
            if let replicas = try? description?.get().replicas { self.replicas = replicas }
            if let found = found(again, description), !isTorn { report(found) }
            guard asksAgain || isTorn else { return }
            asksAgain = false
            ask()
        }
    }

    private func found(
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
        answer(result)
    }
}
