import InterlockProcesses
import RedisClient
import Testing

@Suite("Errors of a server that cannot serve", .timeLimit(.minutes(1)))
struct ServerConditionTests {
    private func write(_ client: RedisClient) async -> RedisError.Code? {
        await failureCode { _ = try await client.send(SetFields(key: "hash", fields: [(name: "field", value: "x")])) }
    }

    @Test(
        "Refusals caused by a setting have their own condition",
        arguments: [
            (["maxmemory", "1"], ServerCondition.outOfMemory), (["min-replicas-to-write", "1"], .tooFewReplicas),
        ]
    )
    func settingRefusalsHaveTheirOwnCondition(setting: [String], condition: ServerCondition) async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                #expect(await write(client) == nil)
                let reply = try await client.sendCommand("CONFIG", "SET", setting[0], setting[1])
                #expect(reply == .status("OK"))
                #expect(await write(client) == .server(condition))
                #expect(condition.isUnavailability)
            }
        }
    }

    @Test("A key of another type has its own condition, distinct from unavailability")
    func wrongType() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                _ = try await client.sendCommand("SET", "hash", "text")
                #expect(await write(client) == .server(.wrongType))
                #expect(!ServerCondition.wrongType.isUnavailability)
            }
        }
    }

    @Test("A forbidden command has its own condition")
    func noPermission() async throws {
        let user = ["--user", "reader", "on", "nopass", "~*", "+@read", "+@connection"]
        try await RedisServer.withServer(arguments: user) { server in
            var configuration = server.configuration
            configuration.username = "reader"
            configuration.password = "any"
            try await withClient(configuration) { client in
                #expect(await write(client) == .server(.noPermission))
            }
        }
    }

    @Test(
        "A refused call inside a script keeps its condition, however a version of Redis wraps it",
        arguments: [
            // Errors of Redis 6.2.
            (
                "ERR Error running script (call to f_0f): @user_script:4: @user_script: 4: -READONLY You can't write against a read only replica. ",
                ServerCondition.readOnly
            ),
            (
                "ERR Error running script (call to f_0f): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'. ",
                .outOfMemory
            ),
            (
                "ERR Error running script (call to f_0f): @user_script:1: The user executing the script can't run this command or subcommand ",
                .noPermission
            ),
            // An error of Redis 7.0.
            (
                "ERR The user executing the script can't run this command or subcommand script: 0f, on @user_script:8.",
                .noPermission
            ),
            // Errors of Redis 7.2.
            (
                "ERR ACL failure in script: User sidecar has no permissions to run the 'mget' command script: 0f, on @user_script:8.",
                .noPermission
            ),
            ("NOPERM ACL failure in script: User sidecar has no permissions to run the 'mget' command", .noPermission),
            ("ERR value is not an integer or out of range script: 0f, on @user_script:8.", .error),
            ("ERR unknown command 'READONLY -OOM'", .error),
            // The server became a replica before or during the command.
            (
                "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable",
                .readOnly
            ),
            (
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", .readOnly
            ),
            ("READONLY You can't write against a read only replica. script: 0f, on @user_script:4.", .readOnly),
        ])
    func refusedCallInsideScriptKeepsCondition(reply: String, condition: ServerCondition) {
        guard case .error(let error)? = Parsing("-\(reply)\r\n").replies.first else { return #expect(Bool(false), "no error") }
        #expect(error.code == .server(condition))
        #expect(!error.message.contains("user_script"), "\(error.message)")
    }

    @Test("A missing script has its own condition")
    func noScript() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                guard case .error(let error) = try await client.sendCommand("EVALSHA", EchoScript.code.digest, "0") else {
                    Issue.record("the server ran a script that it does not have")
                    return
                }
                #expect(error.code == .server(.noScript))
            }
        }
    }

    @Test("A replica refuses writes, and the client reconnects to find the primary")
    func replicaRefusesWrites() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                let before = try await client.connectionID()
                // Nothing listens on port 1, so the primary is unreachable.
                #expect(try await client.sendCommand("REPLICAOF", "127.0.0.1", "1") == .status("OK"))
                #expect(await write(client) == .server(.readOnly))
                try await eventually("the client has a new connection") {
                    do {
                        return try await client.connectionID() != before
                    } catch let error as RedisError where error.code == .notConnected {
                        return false
                    }
                }
                #expect(try await client.sendCommand("REPLICAOF", "NO", "ONE") == .status("OK"))
                #expect(await write(client) == nil)
            }
        }
    }

    @Test("A replica that lost its primary and must not serve stale data has its own condition")
    func primaryDown() async throws {
        try await RedisServer.withServer(arguments: ["--replica-serve-stale-data", "no"]) { server in
            try await withClient(server.configuration) { client in
                let reply = try await client.sendCommand("REPLICAOF", "127.0.0.1", "1")
                #expect(reply == .status("OK"))
                let code = await failureCode {
                    _ = try await client.send(Scan(cursor: "0", pattern: "*", count: 10, type: "string"))
                }
                #expect(code == .server(.primaryDown))
            }
        }
    }

    @Test("A server that runs an endless script is busy until the script is killed")
    func endlessScriptMakesServerBusy() async throws {
        try await RedisServer.withServer(arguments: ["--lua-time-limit", "20"]) { server in
            try await withClient(server.configuration) { client in
                try await withClient(server.configuration) { other in
                    async let endless = client.sendCommand("EVAL", "while true do end", "0", timeout: .seconds(50))
                    try await eventually("the server is busy") { await write(other) == .server(.busy) }
                    #expect(try await other.sendCommand("SCRIPT", "KILL") == .status("OK"))
                    guard case .error(let error) = try await endless else {
                        Issue.record("an endless script ended")
                        return
                    }
                    #expect(error.code == .server(.error))
                    #expect(await write(other) == nil)
                }
            }
        }
    }

    @Test("A server that is loading its data counts as not connected, and the error says why")
    func loadingServerCountsAsNotConnected() async throws {
        // Loading takes about 20 s, and the server replies after every 2 MiB. The test does not wait until it is
        // loaded.
        let slowly = ["--key-load-delay", "10000"]
        try await RedisServer.withServer(arguments: ["--rdbcompression", "no"]) { server in
            try await withClient(server.configuration) { client in
                let filling = "for i = 1, 2000 do redis.call('SET', 'key' .. i, string.rep('x', 60000) .. i) end"
                #expect(try await client.sendCommand("EVAL", filling, "0") == .null)
                try await server.restart(addedArguments: slowly, untilReady: false)
                try await eventually("the server reports that it is loading") {
                    await failureCode { try await client.connect() } == .server(.loading)
                }
                #expect(await failureCode { try await client.send(Ping()) } == .notConnected)
            }
        }
    }
}
