import InterlockProcesses
import InterlockTesting
import RedisClient
import Testing

@Suite("Lost connections", .timeLimit(.minutes(1)))
struct LostConnectionTests {
    @Test("A lost answer is reported, and the command is not sent twice")
    func neverTwice() async throws {
        try await MisbehavingRedis.withServer { command in
            command.text[0] == "SET" ? .close : .text("+OK\r\n")
        } _: { server in
            try await withClient(server.configuration) { client in
                let code = await failureCode { _ = try await client.sendCommand("SET", "key", "value") }
                #expect(code == .replyLost)
                try await eventually("the client is connected again") {
                    (try? await client.sendCommand("ECHO", "x")) == .status("OK")
                }
            }
            #expect(server.connectionCount >= 2)
            #expect(server.commands.count { $0.text[0] == "SET" } == 1)
        }
    }

    @Test("A server that accepts the login and closes on the first write is retried with growing pauses")
    func failedFirstWriteIsRetriedWithPauses() async throws {
        try await MisbehavingRedis.withServer { _ in
            .text("-READONLY You can't write against a read only replica.\r\n")
        } _: { server in
            var configuration = server.configuration
            configuration.reconnectDelay = .milliseconds(20)...(.milliseconds(1000))
            let clock = ContinuousClock()
            let start = clock.now
            // The random source makes each pause as long as possible: 20, 40, 80, 160 and 320 ms between six
            // connections.
            let pipeline = PinnedPipeline(
                configuration, random: RandomSource { $0.initializeMemory(as: UInt8.self, repeating: 255) })
            // Each new connection writes and is closed.
            await pipeline.writeOnEachConnection()
            try await eventually("the server has rejected six writes") { server.commands.count >= 6 }
            #expect(clock.now - start >= .milliseconds(620))
            try await pipeline.close()
        }
    }

    @Test("An idle connection is closed when nothing arrives")
    func blackHole() async throws {
        try await MisbehavingRedis.withServer { _ in
            .silence
        } _: { server in
            var configuration = server.configuration
            configuration.commandTimeout = .milliseconds(200)
            let pipeline = PinnedPipeline(configuration)
            await pipeline.connect()
            // The connection is pinged after 5 s of silence and closed after two command timeouts.
            try await eventually(within: .seconds(15), "the pipeline has reconnected") { server.connectionCount >= 2 }
            try await pipeline.close()
        }
    }

    @Test("Half a reply is not an answer")
    func halfReply() async throws {
        try await MisbehavingRedis.withServer { _ in
            .bytesThenClose(Array("$5\r\nhel".utf8))
        } _: { server in
            try await withClient(server.configuration) { client in
                #expect(await failureCode { _ = try await client.sendCommand("GET", "key") } == .replyLost)
            }
            #expect(server.commands.count == 1)
        }
    }

    @Test("Replies that arrive before the loss are delivered, and the other commands fail as lost")
    func repliesBeforeLossAreDelivered() async throws {
        try await MisbehavingRedis.withServer { command in
            command.index == 1 ? .bytesThenClose(Array("+second\r\n".utf8)) : .text("+first\r\n")
        } _: { server in
            let pipeline = PinnedPipeline(server.configuration)
            await pipeline.connect()
            let results = await pipeline.batch((0..<4).map { AnyCommand(["ECHO", "\($0)"]) }).map(\.result)
            #expect(results.prefix(2) == [.success(.status("first")), .success(.status("second"))])
            for case .failure(let error) in results { #expect(error.code == .replyLost) }
            #expect(results.count { if case .failure = $0 { true } else { false } } == 2)
            try await pipeline.close()
        }
    }

    @Test(
        "Bytes that are not a reply end the connection, and the command's result is unknown",
        arguments: ["HTTP/1.1 400 Bad Request\r\n", "$600000000\r\n", "*1000000000\r\n", ":1x\r\n"]
    )
    func invalidBytes(bytes: String) async throws {
        try await MisbehavingRedis.withServer { command in
            command.connection == 0 ? .text(bytes) : .text("+OK\r\n")
        } _: { server in
            try await withClient(server.configuration) { client in
                #expect(await failureCode { _ = try await client.sendCommand("INCR", "key") } == .replyLost)
                try await eventually("the client is connected again") {
                    (try? await client.sendCommand("ECHO", "x")) == .status("OK")
                }
            }
            #expect(server.commands.count { $0.text[0] == "INCR" } == 1)
        }
    }

    @Test("An unexpected reply ends the connection because later replies could not be matched")
    func unexpectedReply() async throws {
        try await MisbehavingRedis.withServer { command in
            command.connection == 0 ? .text("+OK\r\n+OK\r\n") : .text("+again\r\n")
        } _: { server in
            try await withClient(server.configuration) { client in
                #expect(try await client.sendCommand("ECHO", "x") == .status("OK"))
                try await eventually("the client is connected again") {
                    (try? await client.sendCommand("ECHO", "x")) == .status("again")
                }
            }
        }
    }

    @Test("A command fails if the server is killed while the command waits there")
    func killedServer() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                async let waiting = failureCode { _ = try await client.sendCommand("BLPOP", "list", "0", timeout: .seconds(50)) }
                try await withClient(server.configuration) { other in
                    try await eventually("the command waits in the server") {
                        try await other.send(Info(section: "clients"))["blocked_clients"] == "1"
                    }
                }
                await server.kill()
                #expect(await waiting == .replyLost)
            }
        }
    }

    @Test("A command sent right after a loss fails without being sent")
    func notSentAfterLoss() async throws {
        try await MisbehavingRedis.withServer { _ in
            .close
        } _: { server in
            let pipeline = PinnedPipeline(server.configuration)
            await pipeline.connect()
            let result = await pipeline.chain(AnyCommand(["SET", "key", "1"]), AnyCommand(["SET", "key", "2"]))
            guard case .failure(let error) = result else {
                Issue.record("a server that hangs up answered a command")
                return
            }
            #expect(error.code == .notConnected)
            #expect(server.commands.count == 1)
            try await pipeline.close()
        }
    }

    @Test("Without a connection, a command fails immediately")
    func notConnected() async throws {
        let configuration = try RedisConfiguration(url: "unix:///nonexistent/redis.sock")
        try await withClient(configuration, connects: false) { client in
            #expect(await failureCode { try await client.send(Ping()) } == .notConnected)
            #expect(await failureCode { try await client.connect() } == .connectionFailed)
            #expect(await failureCode { try await client.send(Ping(), timeout: .seconds(50)) } == .notConnected)
        }
    }

    @Test("A client reconnects to its server after a restart")
    func clientReconnectsToServerAfterRestart() async throws {
        try await RedisServer.withServer { server in
            for configuration in [server.configuration, try RedisConfiguration(url: try #require(server.portURL))] {
                try await withClient(configuration) { client in
                    _ = try await client.sendCommand("SET", "key", "value")
                    try await server.restart()
                    try await eventually("the client is connected again") {
                        (try? await client.sendCommand("GET", "key")) == .bulk("value")
                    }
                }
            }
        }
    }

    @Test("A server that lost its data answers like an empty one")
    func restartWithoutData() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                _ = try await client.sendCommand("SET", "key", "value")
                try await server.restart(keepingData: false)
                try await eventually("the client is connected again") {
                    (try? await client.sendCommand("GET", "key")) == .null
                }
            }
        }
    }
}
