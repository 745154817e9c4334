import InterlockProcesses
import InterlockTesting
import RedisClient
import Testing

@Suite("Closing a client", .timeLimit(.minutes(1)))
struct ClosingTests {
    @Test("Closing fails pending commands, and later commands are not sent")
    func closingFailsPendingCommands() async throws {
        try await MisbehavingRedis.withServer { _ in
            .silence
        } _: { server in
            try await withClient(server.configuration) { client in
                async let waiting = failureCode { _ = try await client.sendCommand("ECHO", "x") }
                try await eventually("the command is in flight") { server.commands.count == 1 }
                await client.close()
                #expect(await waiting == .replyLost)
                #expect(await failureCode { try await client.send(Ping()) } == .notConnected)
            }
        }
    }

    @Test("Closing twice has the same effect as closing once")
    func closingTwiceHasSameEffectAsClosingOnce() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                await client.close()
                await client.close()
            }
        }
    }

    @Test("A closed client cannot connect again, and its error says so")
    func connectAfterClose() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                await client.close()
                #expect(await failureCode { try await client.connect() } == .notConnected)
            }
        }
    }

    @Test("Closing the client answers all callers that wait for a connection")
    func closeWhileConnecting() async throws {
        var configuration = try RedisConfiguration(url: "unix:///nonexistent/redis.sock")
        configuration.reconnectDelay = .seconds(60) ... .seconds(60)
        try await withClient(configuration, connects: false) { client in
            #expect(await failureCode { try await client.connect() } == .connectionFailed)
            // The next attempt follows after at least half a minute.
            async let waiting = failureCode { try await client.connect() }
            await Task.yield()
            await client.close()
            #expect(await waiting == .notConnected)
        }
    }

    @Test("A client that is dropped without being closed closes its connection")
    func dropped() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { observer in
                do {
                    let client = RedisClient(configuration: server.configuration)
                    try await client.connect()
                }
                try await eventually("the connection is gone") {
                    try await observer.send(Info(section: "clients"))["connected_clients"] == "1"
                }
            }
        }
    }
}
