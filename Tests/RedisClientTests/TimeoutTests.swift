import InterlockProcesses
import InterlockTesting
import RedisClient
import Testing

@Suite("Timeouts", .timeLimit(.minutes(1)))
struct TimeoutTests {
    /// A limit far above every timeout below, and far below the long default timeouts of the test server.
    private let soon = Duration.seconds(5)

    @Test("A command to a hanging server times out, and the connection survives without mixing up replies")
    func pausedServer() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                let connection = try await client.connectionID()
                await server.pause()
                let start = ContinuousClock.now
                let code = await failureCode { _ = try await client.sendCommand("ECHO", "late", timeout: .milliseconds(100)) }
                #expect(code == .timedOut)
                #expect(ContinuousClock.now - start >= .milliseconds(100))
                #expect(ContinuousClock.now - start < soon)
                await server.resume()
                for number in 0..<10 {
                    #expect(try await client.sendCommand("ECHO", "\(number)") == .bulk("\(number)"))
                }
                #expect(try await client.connectionID() == connection)
            }
        }
    }

    @Test("A timeout is exact even behind a command with a longer one")
    func behindLongTimeout() async throws {
        try await MisbehavingRedis.withServer { _ in
            .silence
        } _: { server in
            try await withClient(server.configuration) { client in
                async let longCommand = failureCode { _ = try await client.sendCommand("ECHO", "long") }
                try await eventually("the command with the long timeout is in flight") { server.commands.count == 1 }
                let start = ContinuousClock.now
                let code = await failureCode { _ = try await client.sendCommand("ECHO", "short", timeout: .milliseconds(100)) }
                #expect(code == .timedOut)
                #expect(ContinuousClock.now - start < soon)
                await client.close()
                #expect(await longCommand == .replyLost)
            }
        }
    }

    @Test("A command with a long timeout that was answered does not delay other timeouts")
    func afterLongTimeout() async throws {
        try await MisbehavingRedis.withServer { command in
            command.text[1] == "long" ? .text("+OK\r\n") : .silence
        } _: { server in
            try await withClient(server.configuration) { client in
                _ = try await client.sendCommand("ECHO", "long", timeout: .seconds(30))
                let start = ContinuousClock.now
                let code = await failureCode { _ = try await client.sendCommand("ECHO", "short", timeout: .milliseconds(100)) }
                #expect(code == .timedOut)
                #expect(ContinuousClock.now - start < soon)
            }
        }
    }

    @Test("A connection on which nothing arrives is replaced")
    func silentPeer() async throws {
        try await MisbehavingRedis.withServer { command in
            command.connection == 0 ? .silence : .text("+OK\r\n")
        } _: { server in
            var configuration = server.configuration
            configuration.commandTimeout = .milliseconds(50)
            try await withClient(configuration) { client in
                try await eventually("a second connection answers") {
                    (try? await client.sendCommand("ECHO", "x")) == .status("OK")
                }
                #expect(server.connectionCount >= 2)
            }
        }
    }
}
