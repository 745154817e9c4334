import InterlockProcesses
import NIOSSL
import RedisClient
import Testing

@Suite(
    "TLS", .timeLimit(.minutes(1)),
    .enabled("this redis-server speaks TLS") { try await RedisProgram.current.speaksTLS })
struct TLSTests {
    private func configuration(of server: RedisServer, host: String) throws -> RedisConfiguration {
        var configuration = try RedisConfiguration(url: "rediss://\(host):\(try #require(server.port))")
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    @Test("A trusted certificate connects", arguments: ["127.0.0.1", "localhost"])
    func trustedCertificateConnects(host: String) async throws {
        try await RedisServer.withServer(listener: .tls) { server in
            var configuration = try configuration(of: server, host: host)
            configuration.tls?.trustRoots = .file(try #require(server.certificate).certificatePath)
            try await withClient(configuration) { client in
                let reply = try await client.sendCommand("ECHO", "hello")
                #expect(reply == .bulk("hello"))
                let value = String(repeating: "x", count: 1 << 20)
                #expect(try await client.sendCommand("ECHO", value) == .bulk(value))
            }
        }
    }

    @Test("An untrusted certificate is refused")
    func untrustedCertificateIsRefused() async throws {
        try await RedisServer.withServer(listener: .tls) { server in
            let configuration = try configuration(of: server, host: "127.0.0.1")
            let error = try await #require(throws: RedisError.self) { try await withClient(configuration) { _ in } }
            #expect(error.code == .connectionFailed)
            #expect(
                error.message.hasSuffix(
                    "the TLS handshake failed: its certificate is not signed by a trusted authority, or has expired"
                ))
        }
    }

    @Test("A certificate for another name is rejected")
    func otherName() async throws {
        // The certificate names 127.0.0.1, not 127.0.0.2.
        try await RedisServer.withServer(arguments: ["--bind", "127.0.0.1", "127.0.0.2"], listener: .tls) { server in
            var configuration = try configuration(of: server, host: "127.0.0.2")
            configuration.tls?.trustRoots = .file(try #require(server.certificate).certificatePath)
            #expect(await failureCode { try await withClient(configuration) { _ in } } == .connectionFailed)
            configuration.tls?.certificateVerification = .noHostnameVerification
            #expect(await failureCode { try await withClient(configuration) { _ in } } == nil)
        }
    }

    @Test("A hanging server does not delay the close of a connection")
    func hangingServerDoesNotDelayCloseOfConnection() async throws {
        try await RedisServer.withServer(listener: .tls) { server in
            var configuration = try configuration(of: server, host: "127.0.0.1")
            configuration.tls?.trustRoots = .file(try #require(server.certificate).certificatePath)
            let client = RedisClient(configuration: configuration)
            try await client.connect()
            await server.pause()
            let time = await ContinuousClock().measure { await client.close() }
            await server.resume()
            // NIO's own timeout is 5 s.
            #expect(time < .seconds(4))
        }
    }

    @Test("A server without TLS counts as not connected, and receives no plain text")
    func plainServer() async throws {
        try await RedisServer.withServer { server in
            var configuration = try configuration(of: server, host: "127.0.0.1")
            // Redis treats the handshake as an incomplete command and waits for more bytes.
            configuration.connectTimeout = .milliseconds(200)
            #expect(await failureCode { try await withClient(configuration) { _ in } } == .connectionFailed)
        }
    }

    @Test("A server that never answers the handshake is not reported as refusing the login")
    func handshake() async throws {
        try await RedisServer.withServer { server in
            var configuration = try configuration(of: server, host: "127.0.0.1")
            configuration.connectTimeout = .milliseconds(200)
            let error = try await #require(throws: RedisError.self) { try await withClient(configuration) { _ in } }
            #expect(
                error.message
                    == "no TLS handshake within 200 ms: does rediss://127.0.0.1:\(try #require(server.port))/0 speak TLS?")
        }
    }
}
