import InterlockProcesses
import RedisClient
import Testing

@testable import InterlockLoad

@Suite("The proxy between a sidecar and Redis", .serialized, .timeLimit(.minutes(2)))
struct FaultProxyTests {
    /// A text that is larger than any buffer on its way, and in which no part repeats.
    private static let longText = (0..<60_000).map { "\($0)," }.joined()

    private static let slowFlows: [FaultFlow] = [
        .free, .delayed(fixed: .milliseconds(3), jitter: .milliseconds(5)), .trickling(bytes: 4096, every: .milliseconds(1)),
    ]

    @Test("Bytes arrive as they were sent", arguments: slowFlows)
    func identity(flow: FaultFlow) async throws {
        try await Scene.run { scene in
            await scene.proxy.set(.init(requests: flow, answers: flow))
            _ = try await scene.client.send(AnyCommand(["SET", "text", Self.longText]))
            let returned = try await scene.client.send(AnyCommand(["GET", "text"])).text
            #expect(returned == Self.longText)
            let stored = try await scene.redis.send(AnyCommand(["GET", "text"])).text
            #expect(stored == Self.longText)
        }
    }

    @Test("A delay applies in both directions")
    func delay() async throws {
        try await Scene.run { scene in
            let flow = FaultFlow.delayed(fixed: .milliseconds(40), jitter: .zero)
            await scene.proxy.set(.init(requests: flow, answers: flow))
            let clock = ContinuousClock()
            let time = try await clock.measure { _ = try await scene.client.send(Ping()) }
            #expect(time >= .milliseconds(80))
        }
    }

    @Test("A partition holds a command back and lets it through when it is over")
    func partition() async throws {
        try await Scene.run { scene in
            await scene.proxy.set(.partition())
            async let held = scene.client.send(AnyCommand(["INCR", "count"]))
            // Longer than the command would take to get through.
            for _ in 0..<50 { _ = try await scene.redis.send(Ping()) }
            let meanwhile = try await scene.redis.send(AnyCommand(["GET", "count"]))
            #expect(meanwhile == .null)
            await scene.proxy.set(.free)
            let reply = try await held
            #expect(reply == .integer(1))
        }
    }

    @Test("A connection opened during a partition hangs, and works when it is over")
    func hangingConnection() async throws {
        try await Scene.run { scene in
            await scene.proxy.set(.partition())
            let late = scene.anotherClient(patience: .seconds(20))
            async let connecting: Void = late.connect()
            for _ in 0..<50 { _ = try await scene.redis.send(Ping()) }
            await scene.proxy.set(.free)
            try await connecting
            _ = try await late.send(Ping())
            await late.close()
        }
    }

    @Test("A connection opened during a refusing partition is refused")
    func refusedConnection() async throws {
        try await Scene.run { scene in
            await scene.proxy.set(.partition(refusesConnections: true))
            let late = scene.anotherClient(patience: .seconds(20))
            await #expect(throws: RedisError.self) { try await late.connect() }
            await late.close()
        }
    }

    @Test("A command sent before its sender gave up is carried out when the partition is over")
    func lateCommand() async throws {
        try await Scene.run { scene in
            await scene.proxy.set(.partition())
            let impatient = try? await scene.client.send(AnyCommand(["SET", "late", "yes"]), timeout: .milliseconds(50))
            #expect(impatient == nil)
            await scene.client.close()
            await scene.proxy.set(.free)
            try await eventually("the command arrives") {
                try await scene.redis.send(AnyCommand(["GET", "late"])).text == "yes"
            }
        }
    }

    @Test("A reset loses the answer to a command that was carried out")
    func reset() async throws {
        try await Scene.run { scene in
            await scene.proxy.set(.init(requests: .free, answers: .held))
            let lost = Task { try await scene.client.send(AnyCommand(["INCR", "count"])) }
            try await eventually("the command is carried out") {
                try await scene.redis.send(AnyCommand(["GET", "count"])).text == "1"
            }
            await scene.proxy.breakConnections(.reset)
            let error = await #expect(throws: RedisError.self) { _ = try await lost.value }
            #expect(error?.code == .answerLost)
        }
    }

    @Test("A broken connection is lost at both ends, and the next one works", arguments: ConnectionBreak.allCases)
    func breaks(manner: ConnectionBreak) async throws {
        try await Scene.run { scene in
            let first = try await scene.client.send(AnyCommand(["CLIENT", "ID"]))
            await scene.proxy.breakConnections(manner)
            try await eventually("another connection works") {
                guard let id = try? await scene.client.send(AnyCommand(["CLIENT", "ID"])) else { return false }
                return id != first
            }
            try await eventually("the first connection is gone") {
                let list = try await scene.redis.send(AnyCommand(["CLIENT", "LIST", "ID", "\(first.integer ?? 0)"]))
                return list.text?.isEmpty ?? false
            }
        }
    }

    @Test("The proxy stops reading from Redis when the sidecar does not read")
    func backPressure() async throws {
        try await Scene.run { scene in
            _ = try await scene.redis.send(AnyCommand(["SETRANGE", "big", "\(8 << 20)", "x"]))
            await scene.proxy.set(.init(requests: .free, answers: .held))
            async let held = scene.client.send(AnyCommand(["GET", "big"]))
            try await eventually("Redis keeps the answer") {
                let list = try await scene.redis.send(AnyCommand(["CLIENT", "LIST"])).text ?? ""
                return list.split(separator: " ").contains { word in
                    word.hasPrefix("omem=") && Int(word.dropFirst(5)).map { $0 > 4 << 20 } ?? false
                }
            }
            await scene.proxy.set(.free)
            let length = try await held.text?.utf8.count
            #expect(length == 8 << 20 + 1)
        }
    }

    @Test("While Redis is down connections are lost, and after its restart the next one works")
    func restart() async throws {
        try await Scene.run { scene in
            await scene.server.kill()
            try await eventually("the connection is lost") {
                do {
                    _ = try await scene.client.send(Ping())
                    return false
                } catch { return true }
            }
            let meanwhile = scene.anotherClient(patience: .seconds(20))
            await #expect(throws: RedisError.self) { try await meanwhile.connect() }
            await meanwhile.close()
            try await scene.server.restart()
            try await eventually("the next connection works") {
                do {
                    _ = try await scene.client.send(Ping())
                    return true
                } catch { return false }
            }
        }
    }
}

extension FaultProxyTests {
    /// A Redis, a proxy in front of it, and a client on each side of the proxy.
    private struct Scene {
        let server: RedisServer
        let proxy: FaultProxy
        /// A client of the proxy.
        let client: RedisClient
        /// A client of Redis itself.
        let redis: RedisClient

        static func run(_ body: (Scene) async throws -> Void) async throws {
            try await RedisServer.withServer { server in
                let proxy = try await FaultProxy.start(redisPort: try #require(server.port))
                let scene = Scene(
                    server: server, proxy: proxy, client: client(of: proxy, patience: .seconds(20)),
                    redis: RedisClient(configuration: server.configuration))
                let outcome: Result<Void, any Error>
                do {
                    try await scene.client.connect()
                    try await scene.redis.connect()
                    try await body(scene)
                    outcome = .success(())
                } catch {
                    outcome = .failure(error)
                }
                await scene.client.close()
                await scene.redis.close()
                await proxy.close()
                try outcome.get()
            }
        }

        func anotherClient(patience: Duration) -> RedisClient {
            Self.client(of: proxy, patience: patience)
        }

        private static func client(of proxy: FaultProxy, patience: Duration) -> RedisClient {
            var configuration = RedisConfiguration(address: .host("127.0.0.1", port: proxy.port))
            configuration.connectTimeout = patience
            configuration.commandTimeout = patience
            return RedisClient(configuration: configuration)
        }
    }
}
