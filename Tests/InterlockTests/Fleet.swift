import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient
import Testing

/// Coordinators on one real Redis, spread over the available event loops.
struct Fleet {
    let server: RedisServer
    let sidecars: [Coordinator]
    /// A direct connection to Redis, comparable to `redis-cli`.
    let redis: RedisClient

    /// Runs `body` with `count` connected coordinators, and stops everything afterwards, even after an error.
    /// - Parameter user: the Redis user for their login, with its password and the command that creates it; `nil` for
    ///   the default user.
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
                await sidecar.waitUntilReady()
            }
            let fleet = Fleet(server: server, sidecars: sidecars, redis: redis)
            try await fleet.waitUntilAllSubscribed()
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

    /// Sends a command, given by its words, to Redis and returns the reply.
    @discardableResult
    func cli(_ arguments: String...) async throws -> RedisReply {
        try await redis.send(AnyCommand(arguments))
    }

    /// Waits until all sidecars have subscribed, because messages without a subscriber are lost.
    func waitUntilAllSubscribed() async throws {
        let channel = sidecars[0].keys.events
        let expected = Int64(sidecars.count)
        try await eventually(within: .seconds(10), "every sidecar has subscribed") {
            try await cli("PUBSUB", "NUMSUB", channel).array?.last?.integer == expected
        }
    }
}

extension LockRequest {
    /// Creates a request for the lock `name`, which must be a valid name.
    init(_ name: String, ttl: Int64 = 30_000, wait: Int64 = 0, owner: String? = nil, label: String? = nil) throws {
        self.init(
            name: try ResourceName(name), ttlMilliseconds: ttl, waitMilliseconds: wait, owner: owner, label: label)
    }
}
