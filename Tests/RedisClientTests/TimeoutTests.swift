import InterlockProcesses
import InterlockTesting
import RedisClient
import Testing

@Suite("Timeouts", .timeLimit(.minutes(1)))
struct TimeoutTests {
    /// Far above every timeout below, and far below the long defaults of the test server.
    private let soon = Duration.seconds(5)

    @Test("A command to a hanging server times out, and the connection survives without mixing up replies")
    func pausedServer() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                let connection = try await client.connectionNumber()
                await server.pause()
                let start = ContinuousClock.now
                let code = await failureCode { _ = try await client.words("ECHO", "late", timeout: .milliseconds(100)) }
                #expect(code == .timedOut)
                #expect(ContinuousClock.now - start >= .milliseconds(100))
                #expect(ContinuousClock.now - start < soon)
                await server.resume()
                for number in 0..<10 {
                    #expect(try await client.words("ECHO", "\(number)") == .bulk("\(number)"))
                }
                #expect(try await client.connectionNumber() == connection)
            }
        }
    }

    @Test("A timeout is exact even behind a command with a longer one")
    func behindLongTimeout() async throws {
        try await MisbehavingRedis.withServer { _ in
            .silence
        } _: { server in
            try await withClient(server.configuration) { client in
                async let patient = failureCode { _ = try await client.words("ECHO", "patient") }
                try await eventually("the command with the long timeout is in flight") { server.commands.count == 1 }
                let start = ContinuousClock.now
                let code = await failureCode { _ = try await client.words("ECHO", "hasty", timeout: .milliseconds(100)) }
                #expect(code == .timedOut)
                #expect(ContinuousClock.now - start < soon)
                await client.close()
                #expect(await patient == .answerLost)
            }
        }
    }

    @Test("An answered command with a long timeout delays no other timeout")
    func afterLongTimeout() async throws {
        try await MisbehavingRedis.withServer { command in
            command.text[1] == "patient" ? .text("+OK\r\n") : .silence
        } _: { server in
            try await withClient(server.configuration) { client in
                _ = try await client.words("ECHO", "patient", timeout: .seconds(30))
                let start = ContinuousClock.now
                let code = await failureCode { _ = try await client.words("ECHO", "hasty", timeout: .milliseconds(100)) }
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
                    (try? await client.words("ECHO", "x")) == .status("OK")
                }
                #expect(server.connectionCount >= 2)
            }
        }
    }
}
