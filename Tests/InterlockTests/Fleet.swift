import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient
import Testing

/// Some coordinators on one real Redis, on the event loops that there are.
struct Fleet {
    let server: RedisServer
    let sidecars: [Coordinator]
    /// Looks at Redis as a person with `redis-cli` does.
    let redis: RedisClient

    /// Runs `body` with `count` connected coordinators; everything is stopped at the end, whatever happens.
    /// - Parameter user: a user of Redis and its password that they log in as, and the command that makes it.
    static func run(
        of count: Int = 1, services: [ServiceDefinition] = [], domains: DomainSettings = DomainSettings(),
        locks: LockSettings = LockSettings(),
        user: (name: String, password: String, command: [String])? = nil,
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ body: (Fleet) async throws -> Void
    ) async throws {
        try await RedisServer.withServer { server in
            let group = MultiThreadedEventLoopGroup.singleton
            var configuration = InterlockConfiguration(
                redis: server.configuration, locks: locks, services: services, domains: domains, host: "test")
            configuration.redis.commandTimeout = .seconds(2)
            let redis = RedisClient(configuration: server.configuration)
            try await redis.connect()
            if let user {
                configuration.redis.username = user.name
                configuration.redis.password = user.password
                #expect(try await redis.send(AnyCommand(user.command)) == .status("OK"))
            }
            let sidecars = (0..<count).map { _ in
                Coordinator(configuration: configuration, eventLoop: group.next(), logger: logger)
            }
            for sidecar in sidecars {
                await sidecar.start()
                await sidecar.untilReady()
            }
            let fleet = Fleet(server: server, sidecars: sidecars, redis: redis)
            try await fleet.untilEveryoneListens()
            let result: Result<Void, any Error>
            do {
                try await body(fleet)
                result = .success(())
            } catch {
                result = .failure(error)
            }
            for sidecar in sidecars { await sidecar.stop() }
            await redis.close()
            try result.get()
        }
    }

    /// The answer of Redis to a command as one types it.
    @discardableResult
    func cli(_ words: String...) async throws -> RedisReply {
        try await redis.send(AnyCommand(words))
    }

    /// A message that nobody listens to is lost: tests begin when all subscriptions stand.
    func untilEveryoneListens() async throws {
        let channel = sidecars[0].keys.events
        let expected = Int64(sidecars.count)
        try await eventually(within: .seconds(10), "every sidecar has subscribed") {
            try await cli("PUBSUB", "NUMSUB", channel).array?.last?.integer == expected
        }
    }
}

extension LockRequest {
    /// A request for the lock `name`, whose name the test knows to be good.
    init(_ name: String, ttl: Int64 = 30_000, wait: Int64 = 0, owner: String? = nil, label: String? = nil) throws {
        self.init(name: try ResourceName(name), ttl: ttl, wait: wait, owner: owner, label: label)
    }
}
