import InterlockProcesses
import InterlockTesting
import RedisClient
import Testing

@Suite("Login", .timeLimit(.minutes(1)))
struct LoginTests {
    private static let user = ["--user", "worker", "on", ">secret", "~*", "&*", "+@all"]

    @Test("An ACL user logs in with name and password")
    func aclUserLogsInWithNameAndPassword() async throws {
        try await RedisServer.withServer(arguments: Self.user) { server in
            var configuration = server.configuration
            configuration.username = "worker"
            configuration.password = "secret"
            try await withClient(configuration) { client in
                let user = try await client.sendCommand("ACL", "WHOAMI")
                #expect(user == .bulk("worker"))
            }
        }
    }

    @Test("A password alone logs in the default user")
    func defaultUser() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "secret"]) { server in
            try await withClient(server.configuration) { client in
                let user = try await client.sendCommand("ACL", "WHOAMI")
                #expect(user == .bulk("default"))
            }
        }
    }

    @Test("A wrong password and a missing one are distinct errors")
    func wrongPasswordAndMissingOneAreDistinctErrors() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "secret"]) { server in
            var configuration = server.configuration
            configuration.password = "wrong"
            #expect(await failureCode { try await withClient(configuration) { _ in } } == .server(.wrongPassword))
            configuration.password = nil
            #expect(await failureCode { try await withClient(configuration) { _ in } } == .server(.noAuthentication))
        }
    }

    @Test("The message of a refused login does not contain the password")
    func messageOfRefusedLoginDoesNotContainPassword() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "secret"]) { server in
            var configuration = server.configuration
            configuration.password = "hunter2"
            let error = try await #require(throws: RedisError.self) { try await withClient(configuration) { _ in } }
            #expect(!error.message.contains("hunter2"))
        }
    }

    @Test("A connection has the configured name, and a server that refuses the name still accepts the login")
    func connectionHasConfiguredName() async throws {
        let unnamed = ["--user", "worker", "on", ">secret", "~*", "+@all", "-client|setname"]
        try await RedisServer.withServer(arguments: unnamed) { server in
            var configuration = server.configuration
            configuration.clientName = "interlock/9f2c41d07ab3"
            try await withClient(configuration) { client in
                let name = try await client.sendCommand("CLIENT", "GETNAME")
                #expect(name == .bulk("interlock/9f2c41d07ab3"))
            }
            configuration.username = "worker"
            configuration.password = "secret"
            try await withClient(configuration) { client in
                let user = try await client.sendCommand("ACL", "WHOAMI")
                #expect(user == .bulk("worker"))
                let name = try await client.sendCommand("CLIENT", "GETNAME").text ?? ""
                #expect(name.isEmpty)
            }
        }
    }

    @Test("The database of the configuration is selected")
    func databaseOfConfigurationIsSelected() async throws {
        try await RedisServer.withServer { server in
            var configuration = server.configuration
            configuration.database = 5
            try await withClient(configuration) { client in
                _ = try await client.sendCommand("SET", "key", "five")
                _ = try await client.sendCommand("SELECT", "0")
                #expect(try await client.sendCommand("GET", "key") == .null)
                _ = try await client.sendCommand("SELECT", "5")
                #expect(try await client.sendCommand("GET", "key") == .bulk("five"))
            }
        }
    }

    @Test("A database that does not exist fails the login")
    func absentDatabase() async throws {
        try await RedisServer.withServer { server in
            var configuration = server.configuration
            configuration.database = 16
            #expect(await failureCode { try await withClient(configuration) { _ in } } == .server(.error))
        }
    }

    @Test("A server that never answers fails the login within the connect timeout")
    func silentServer() async throws {
        try await MisbehavingRedis.withServer(answersLogin: false) { _ in
            .silence
        } _: { server in
            var configuration = server.configuration
            configuration.connectTimeout = .milliseconds(100)
            let start = ContinuousClock.now
            #expect(await failureCode { try await withClient(configuration) { _ in } } == .connectionFailed)
            #expect(ContinuousClock.now - start < .seconds(5))
        }
    }

    @Test("A server that closes the connection during the login counts as not connected")
    func closedDuringLogin() async throws {
        try await MisbehavingRedis.withServer(answersLogin: false) { _ in
            .close
        } _: { server in
            #expect(await failureCode { try await withClient(server.configuration) { _ in } } == .connectionFailed)
        }
    }

    @Test("A server that does not answer the login is not reported as refusing it")
    func unanswered() async throws {
        try await MisbehavingRedis.withServer(answersLogin: false) { _ in
            .silence
        } _: { server in
            var configuration = server.configuration
            configuration.connectTimeout = .milliseconds(200)
            let error = try await #require(throws: RedisError.self) { try await withClient(configuration) { _ in } }
            #expect(error.message == "redis://127.0.0.1:\(server.port)/0 did not answer the login within 200 ms")
        }
    }
}
