import Interlock
import InterlockCore
import InterlockProcesses
import InterlockTesting
import Logging
import NIOConcurrencyHelpers
import NIOPosix
import RedisClient
import Testing

/// A peer that answers PING may still be unable to serve as Redis.
@Suite("A peer that cannot serve as Redis counts as down", .timeLimit(.minutes(2)))
struct UnusableServerTests {
    private static let services = [
        ServiceDefinition(name: "strict", limits: [limit], whenRedisIsDown: .deny),
        ServiceDefinition(name: "lenient", limits: [limit], whenRedisIsDown: .allow),
    ]
    private static let limit = LimitDefinition(name: "1m", limit: 10, window: .seconds(60))

    /// Expects a coordinator to count this server as down, report and log these words, and apply `when_redis_is_down`.
    private static func expectDown(
        _ redis: RedisConfiguration, saying words: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        var redis = redis
        redis.connectTimeout = .seconds(2)
        redis.commandTimeout = .milliseconds(500)
        let log = LineLog()
        let coordinator = Coordinator(
            configuration: InterlockConfiguration(redis: redis, services: services, host: "test"),
            eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: Logger(label: "test") { _ in log })
        await coordinator.start()
        do {
            try await eventually(within: .seconds(5), "the log names the reason") {
                log.lines.contains { $0.contains("event=redis.lost") && $0.contains(words) }
            }
        } catch {
            Issue.record("\(error); it says \(log.lines)", sourceLocation: sourceLocation)
        }
        #expect(await !coordinator.isReady, sourceLocation: sourceLocation)
        let status = await coordinator.status
        #expect(!status.isRedisUp, sourceLocation: sourceLocation)
        #expect(
            status.redisFailure?.contains(words) ?? false, "\(status.redisFailure ?? "no failure")",
            sourceLocation: sourceLocation)
        var code: InterlockError.Code?
        do { _ = try await coordinator.take(service: "strict") } catch { code = (error as? InterlockError)?.code }
        #expect(code == .unavailable, sourceLocation: sourceLocation)
        let isAllowed = try? await coordinator.take(service: "lenient").isAllowed
        #expect(isAllowed == true, sourceLocation: sourceLocation)
        await coordinator.stop()
    }

    private static func address(_ port: Int?) throws -> RedisConfiguration {
        try RedisConfiguration(url: "redis://127.0.0.1:\(try #require(port))")
    }

    @Test("A Sentinel counts as down")
    func sentinelCountsAsDown() async throws {
        try await SentinelFleet.withFleet(replicas: 1, sentinels: 1) { fleet in
            try await Self.expectDown(try Self.address(fleet.sentinels[0].port), saying: "is a Sentinel, not a Redis server")
        }
    }

    @Test("A server whose EVALSHA is renamed counts as down")
    func serverWhoseEvalshaIsRenamedCountsAsDown() async throws {
        try await RedisServer.withServer(arguments: ["--rename-command", "EVALSHA", "RUN"]) { server in
            try await Self.expectDown(server.configuration, saying: "cannot run scripts")
        }
    }

    @Test("A server whose user may not run scripts counts as down")
    func forbidden() async throws {
        try await RedisServer.withServer(arguments: ["--user", "worker", "on", ">secret", "~*", "&*", "+@all", "-evalsha"]) {
            server in
            var configuration = server.configuration
            configuration.username = "worker"
            configuration.password = "secret"
            try await Self.expectDown(configuration, saying: "does not let this user run scripts")
        }
    }

    @Test("A server that is too old counts as down")
    func serverThatIsTooOldCountsAsDown() async throws {
        try await MisbehavingRedis.withServer { command in
            switch command.text[0] {
            case "INFO": .bytes(RedisReply.bulk(Array("# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n".utf8)).wire)
            case "EVAL", "EVALSHA": .text(":1\r\n")
            case "HELLO": .text("-ERR unknown command `HELLO`, with args beginning with: \r\n")
            case "CLIENT": .text("+OK\r\n")
            default: .text("-ERR unknown command\r\n")
            }
        } _: { server in
            try await Self.expectDown(server.configuration, saying: "is Redis 5.0.14")
        }
    }

    @Test("A replica counts as down")
    func replicaCountsAsDown() async throws {
        try await RedisServer.withServer { primary in
            try await RedisServer.withServer(arguments: ["--replicaof", "127.0.0.1", "\(try #require(primary.port))"]) {
                replica in
                try await Self.expectDown(replica.configuration, saying: "is a replica, which accepts no writes")
            }
        }
    }

    @Test("A proxy without HELLO and INFO that runs scripts only with a key can serve")
    func proxy() async throws {
        try await MisbehavingRedis.withServer { command in
            let words = command.text
            let isScript = words[0] == "EVAL" || words[0] == "EVALSHA"
            return .text(isScript && words[2] == "1" && words[3].hasPrefix("interlock:") ? ":1\r\n" : "-ERR unknown command\r\n")
        } _: { server in
            let coordinator = Coordinator(
                configuration: InterlockConfiguration(redis: server.configuration, host: "test"),
                eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await coordinator.start()
            #expect(await coordinator.waitUntilReady(timeout: .seconds(10)))
            await coordinator.stop()
        }
    }

    @Test("A server of a quorum that runs no scripts counts as down")
    func quorum() async throws {
        try await RedisServer.withServer { main in
            try await RedisServer.withServer(arguments: ["--rename-command", "EVALSHA", "RUN"]) { unfit in
                let log = LineLog()
                let coordinator = Coordinator(
                    configuration: InterlockConfiguration(
                        redis: main.configuration, quorum: [main.configuration, main.configuration, unfit.configuration],
                        host: "test"),
                    eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: Logger(label: "test") { _ in log })
                await coordinator.start()
                await coordinator.waitUntilReady(timeout: .seconds(10))
                var isLogged = true
                do {
                    try await eventually(within: .seconds(5), "the log reports the lost quorum") {
                        log.lines.contains { $0.contains("event=quorum.lost") && $0.contains("cannot run scripts") }
                    }
                } catch { isLogged = false }
                #expect(isLogged, "\(log.lines)")
                await coordinator.stop()
            }
        }
    }
}

/// Records each log line with its metadata.
final class LineLog: LogHandler, Sendable {
    private let entries = NIOLockedValueBox<[String]>([])

    var logLevel: Logger.Level {
        get { .info }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }

    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        let fields = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " ")
        entries.withLockedValue { $0.append("\(event.message) \(fields)") }
    }

    var lines: [String] { entries.withLockedValue { $0 } }
}
