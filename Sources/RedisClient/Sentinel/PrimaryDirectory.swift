internal import Logging
package import NIOCore

/// Asks Sentinels which server is the primary, hears from them when it is another one, and moves its followers there, all at once.
/// Confined to its event loop. What it decides by is `PrimaryChoice`.
///
/// Each Sentinel has two connections: one that is asked, and one that listens. Messages can be lost, so all are asked again when a
/// follower has lost the server, and every few seconds.
///
/// Source: "Guidelines for Redis clients with support for Redis Sentinel".
package final class PrimaryDirectory {
    private let settings: SentinelSettings
    private let environment: RedisEnvironment
    private var sentinels: [SentinelConnection] = []
    private let followers: ServerGroup
    private var choice: PrimaryChoice
    /// When the last switch began, until every follower is there.
    private var switching: (from: PrimaryChoice.Primary, since: NIODeadline)?
    /// Until then it is not said that a Sentinel names a former primary: after a failover they hear of it one by one.
    private var nextComplaint = NIODeadline.uptimeNanoseconds(0)
    private var check: Scheduled<Void>?
    private var wasOutOfReach = false
    private var isClosed = false

    /// How often the primary was another one since the start.
    package private(set) var switches = 0
    /// How long the last switch took, from its news to the moment at which every connection was there; `nil`: there was none.
    package private(set) var lastSwitch: Duration?

    /// How often all Sentinels are asked although nothing has happened.
    private static let checkInterval = TimeAmount.seconds(5)
    /// After so long every Sentinel that is heard has heard of a failover.
    private static let newsTime = TimeAmount.seconds(10)

    /// `nil`: the configuration names the server itself.
    /// - Parameter configuration: of what is not its address, TLS and the times are the Sentinels' too.
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

    /// Begins to ask; does nothing when it already has.
    package func start() {
        guard check == nil else { return }
        for sentinel in sentinels { sentinel.start() }
        planCheck()
    }

    /// Ends the connections to the Sentinels for good.
    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        check?.cancel()
        return .andAllComplete(sentinels.flatMap { $0.close() }, on: environment.eventLoop)
    }

    /// What the Sentinels call the primary.
    package var name: String { settings.primary }
    package var primary: PrimaryChoice.Primary? { choice.primary }
    package var sentinelCount: Int { sentinels.count }
    /// How many replicas the primary has, by the Sentinel that knows most of them; `nil`: none has answered.
    package var replicas: Int? { sentinels.lazy.compactMap(\.replicas).max() }
    /// How many Sentinels are heard.
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
            // Whoever waits for a majority is told that there is none, once: it asks again by itself.
            if choice.primary == nil, isOutOfReach, !wasOutOfReach { followers.tell { $0.dialAgain() } }
            wasOutOfReach = isOutOfReach
            return
        }
        wasOutOfReach = isOutOfReach
        switch choice.heard(named, from: number) {
        case .undecided, .unchanged: break
        case .found(let primary):
            nextComplaint = environment.eventLoop.now + Self.newsTime
            environment.logger.log(.primaryFound, fields(of: primary))
            followers.tell { $0.dialAgain() }
        case .moved(let former, let primary): move(from: former, to: primary)
        case .former(let former): refuse(former, namedBy: number)
        }
    }

    /// Too few Sentinels are left that have answered or are still being asked.
    private var isOutOfReach: Bool { sentinels.count { $0.failure == nil } < choice.majority }

    private func move(from former: PrimaryChoice.Primary, to primary: PrimaryChoice.Primary) {
        switches += 1
        nextComplaint = environment.eventLoop.now + Self.newsTime
        switching = (switching?.from ?? former, environment.eventLoop.now)
        let reason = RedisError(.answerLost, "\(primary.address) is the primary now, and \(former.address) is none any more")
        followers.tell { $0.leave(because: reason) }
    }

    private func refuse(_ former: PrimaryChoice.Primary, namedBy number: Int) {
        let now = environment.eventLoop.now
        guard now >= nextComplaint, let primary = choice.primary else { return }
        nextComplaint = now + .minutes(1)
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
            "\(choice.answering) of \(sentinels.count) Sentinels name the primary \(settings.primary), and \(choice.majority) are needed: "
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

/// One Sentinel, which is asked and listened to. Confined to its event loop.
private final class SentinelConnection {
    private let pipeline: RedisPipeline
    private let subscriber: RedisSubscriber
    private let name: String
    private let displayName: String
    private let answer: (Result<PrimaryChoice.Primary, RedisError>) -> Void
    private var isAsking = false
    /// Something happened while it was asked: what it answers may be older than that.
    private var asksAgain = false
    /// How many replicas it knows of; `nil`: it has not said.
    private(set) var replicas: Int?
    /// Why it last gave no answer; `nil`: it did, or is being asked for the first time.
    private(set) var failure: RedisError?

    /// What a Sentinel publishes when a failover has got so far that there is another primary.
    private static let channels = ["+switch-master", "+promoted-slave"]

    /// - Parameter answer: called with each answer, or why there is none.
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
        pipeline.onDown = { [weak self] error in self?.tell(.failure(error)) }
        subscriber.onSubscribed = { [weak self] in self?.ask() }
        // Which primary it is about is not looked at: asking once too often costs nothing.
        subscriber.onMessage = { [weak self] _, _ in self?.ask() }
        pipeline.start()
        subscriber.start()
    }

    func close() -> [EventLoopFuture<Void>] { [pipeline.close(), subscriber.close()] }

    /// Asks where the primary is; does nothing while there is no connection.
    func ask() {
        guard pipeline.isUp else { return }
        guard !isAsking else { return asksAgain = true }
        isAsking = true
        var address: Result<RedisConfiguration.Address?, RedisError>?
        var description: Result<PrimaryDescription.Reply, RedisError>?
        pipeline.send(PrimaryAddress(name: name)) { address = $0 }
        pipeline.send(PrimaryDescription(name: name)) { description = $0 }
        // Asked again: an epoch and an address belong together only if nothing happened between the two.
        pipeline.send(PrimaryAddress(name: name)) { [weak self] again in
            guard let self else { return }
            isAsking = false
            let isTorn = (try? address?.get()) != (try? again.get())
            if let replicas = try? description?.get().replicas { self.replicas = replicas }
            if let found = found(again, description), !isTorn { tell(found) }
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
                RedisError(.connectionFailed, "it is no Sentinel (\(error.message)); a server is named as redis://HOST:PORT"))
        case (.failure(let error), _): .failure(error)
        case (.success(nil), _): .failure(RedisError(.connectionFailed, "it knows no primary of that name"))
        case (.success(let address?), .success(let description)?):
            .success(PrimaryChoice.Primary(address, epoch: description.epoch))
        case (.success(_?), .failure(let error)?): .failure(error)
        case (.success(_?), nil): nil
        }
    }

    private func tell(_ result: Result<PrimaryChoice.Primary, RedisError>) {
        switch result {
        case .success: failure = nil
        case .failure(let error): failure = RedisError(error.code, "the Sentinel \(displayName): \(error.message)")
        }
        answer(result)
    }
}
