import InterlockProcesses
import RedisClient
import Testing

@testable import InterlockLoad

@Suite("The proxy between a sidecar and Redis", .serialized, .timeLimit(.minutes(2)))
struct FaultProxyTests {
    /// A text that is larger than any buffer on its way and does not repeat.
    private static let longText = (0..<60_000).map { "\($0)," }.joined()

    private static let slowFlows: [FaultFlow] = [
        .free, .delayed(fixed: .milliseconds(3), jitter: .milliseconds(5)), .throttled(bytes: 4096, every: .milliseconds(1)),
    ]

    @Test("Bytes arrive as they were sent", arguments: slowFlows)
    func bytesArriveAsTheyWereSent(flow: FaultFlow) async throws {
        try await Fixture.run { fixture in
            await fixture.proxy.set(.init(requests: flow, replies: flow))
            _ = try await fixture.client.send(AnyCommand(["SET", "text", Self.longText]))
            let returned = try await fixture.client.send(AnyCommand(["GET", "text"])).text
            #expect(returned == Self.longText)
            let stored = try await fixture.redis.send(AnyCommand(["GET", "text"])).text
            #expect(stored == Self.longText)
        }
    }

    @Test("A delay applies in both directions")
    func delayAppliesInBothDirections() async throws {
        try await Fixture.run { fixture in
            let flow = FaultFlow.delayed(fixed: .milliseconds(40), jitter: .zero)
            await fixture.proxy.set(.init(requests: flow, replies: flow))
            let clock = ContinuousClock()
            let time = try await clock.measure { _ = try await fixture.client.send(Ping()) }
            #expect(time >= .milliseconds(80))
        }
    }

    @Test("A partition holds a command back until it ends")
    func partitionHoldsBackCommand() async throws {
        try await Fixture.run { fixture in
            await fixture.proxy.set(.partition())
            async let delayedReply = fixture.client.send(AnyCommand(["INCR", "count"]))
            // These pings take longer than the command would without the partition.
            for _ in 0..<50 { _ = try await fixture.redis.send(Ping()) }
            let meanwhile = try await fixture.redis.send(AnyCommand(["GET", "count"]))
            #expect(meanwhile == .null)
            await fixture.proxy.set(.free)
            let reply = try await delayedReply
            #expect(reply == .integer(1))
        }
    }

    @Test("A connection opened during a partition hangs, and works after the partition")
    func hangingConnection() async throws {
        try await Fixture.run { fixture in
            await fixture.proxy.set(.partition())
            let late = fixture.anotherClient(timeout: .seconds(20))
            async let connecting: Void = late.connect()
            for _ in 0..<50 { _ = try await fixture.redis.send(Ping()) }
            await fixture.proxy.set(.free)
            try await connecting
            _ = try await late.send(Ping())
            await late.close()
        }
    }

    @Test("A connection opened during a refusing partition is refused")
    func refusedConnection() async throws {
        try await Fixture.run { fixture in
            await fixture.proxy.set(.partition(refusesConnections: true))
            let late = fixture.anotherClient(timeout: .seconds(20))
            await #expect(throws: RedisError.self) { try await late.connect() }
            await late.close()
        }
    }

    @Test("A command whose sender gave up is still executed after the partition")
    func lateCommand() async throws {
        try await Fixture.run { fixture in
            await fixture.proxy.set(.partition())
            let reply = try? await fixture.client.send(AnyCommand(["SET", "late", "yes"]), timeout: .milliseconds(50))
            #expect(reply == nil)
            await fixture.client.close()
            await fixture.proxy.set(.free)
            try await eventually("the command arrives") {
                try await fixture.redis.send(AnyCommand(["GET", "late"])).text == "yes"
            }
        }
    }

    @Test("A reset loses the answer to a command that was executed")
    func resetLosesAnswerToCommandThatWasExecuted() async throws {
        try await Fixture.run { fixture in
            await fixture.proxy.set(.init(requests: .free, replies: .blocked))
            let lost = Task { try await fixture.client.send(AnyCommand(["INCR", "count"])) }
            try await eventually("the command is executed") {
                try await fixture.redis.send(AnyCommand(["GET", "count"])).text == "1"
            }
            await fixture.proxy.breakConnections(.reset)
            let error = await #expect(throws: RedisError.self) { _ = try await lost.value }
            #expect(error?.code == .replyLost)
        }
    }

    @Test("A broken connection is lost at both ends, and the next one works", arguments: ConnectionBreak.allCases)
    func brokenConnectionIsLostAtBothEnds(manner: ConnectionBreak) async throws {
        try await Fixture.run { fixture in
            let first = try await fixture.client.send(AnyCommand(["CLIENT", "ID"]))
            await fixture.proxy.breakConnections(manner)
            try await eventually("another connection works") {
                guard let id = try? await fixture.client.send(AnyCommand(["CLIENT", "ID"])) else { return false }
                return id != first
            }
            try await eventually("the first connection is gone") {
                let list = try await fixture.redis.send(AnyCommand(["CLIENT", "LIST", "ID", "\(first.integer ?? 0)"]))
                return list.text?.isEmpty ?? false
            }
        }
    }

    @Test("The proxy stops reading from Redis when the sidecar does not read")
    func backPressure() async throws {
        try await Fixture.run { fixture in
            _ = try await fixture.redis.send(AnyCommand(["SETRANGE", "big", "\(8 << 20)", "x"]))
            await fixture.proxy.set(.init(requests: .free, replies: .blocked))
            async let delayedReply = fixture.client.send(AnyCommand(["GET", "big"]))
            try await eventually("Redis keeps the answer") {
                let list = try await fixture.redis.send(AnyCommand(["CLIENT", "LIST"])).text ?? ""
                return list.split(separator: " ").contains { word in
                    word.hasPrefix("omem=") && Int(word.dropFirst(5)).map { $0 > 4 << 20 } ?? false
                }
            }
            await fixture.proxy.set(.free)
            let length = try await delayedReply.text?.utf8.count
            #expect(length == 8 << 20 + 1)
        }
    }

    @Test("Connections are lost while Redis is down, and the next one works after its restart")
    func connectionsAreLostWhileRedisIsDown() async throws {
        try await Fixture.run { fixture in
            await fixture.server.kill()
            try await eventually("the connection is lost") {
                do {
                    _ = try await fixture.client.send(Ping())
                    return false
                } catch { return true }
            }
            let meanwhile = fixture.anotherClient(timeout: .seconds(20))
            await #expect(throws: RedisError.self) { try await meanwhile.connect() }
            await meanwhile.close()
            try await fixture.server.restart()
            try await eventually("the next connection works") {
                do {
                    _ = try await fixture.client.send(Ping())
                    return true
                } catch { return false }
            }
        }
    }
}

extension FaultProxyTests {
    /// A Redis server, a proxy in front of it, and a client on each side of the proxy.
    private struct Fixture {
        let server: RedisServer
        let proxy: FaultProxy
        /// A client of the proxy.
        let client: RedisClient
        /// A client of Redis itself.
        let redis: RedisClient

        static func run(_ body: (Fixture) async throws -> Void) async throws {
            try await RedisServer.withServer { server in
                let proxy = try await FaultProxy.start(redisPort: try #require(server.port))
                let fixture = Fixture(
                    server: server, proxy: proxy, client: client(of: proxy, timeout: .seconds(20)),
                    redis: RedisClient(configuration: server.configuration))
                let outcome: Result<Void, any Error>
                do {
                    try await fixture.client.connect()
                    try await fixture.redis.connect()
                    try await body(fixture)
                    outcome = .success(())
                } catch {
                    outcome = .failure(error)
                }
                await fixture.client.close()
                await fixture.redis.close()
                await proxy.close()
                try outcome.get()
            }
        }

        func anotherClient(timeout: Duration) -> RedisClient {
            Self.client(of: proxy, timeout: timeout)
        }

        private static func client(of proxy: FaultProxy, timeout: Duration) -> RedisClient {
            var configuration = RedisConfiguration(address: .host("127.0.0.1", port: proxy.port))
            configuration.connectTimeout = timeout
            configuration.commandTimeout = timeout
            return RedisClient(configuration: configuration)
        }
    }
}
