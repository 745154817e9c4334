import FoundationEssentials
import Interlock
import InterlockProcesses
import InterlockSidecar
import SidecarSettings
import RedisClient
import Testing

@Suite("Configuration: Sentinels, and TLS to Redis")
struct ConfigurationSentinelTests {
    @Test("Sentinels and a primary's name replace a URL")
    func sentinelsAndPrimaryNameReplaceURL() throws {
        let settings = try configuration("redis: { sentinels: [s1, \"s2:7000\", \"[::1]\"], primary: main }")
        #expect(settings.redis.url == "redis+sentinel://s1:26379,s2:7000,[::1]:26379/main")
        #expect(!settings.redis.isEmbedded)
        let server = try settings.coordinatorConfiguration(redisURL: try #require(settings.redis.url)).redis
        #expect(server.displayName == "redis+sentinel://s1:26379,s2:7000,[::1]:26379/main/0")
        #expect(server.commandTimeout == settings.redis.timeout)
    }

    @Test("With redis.tls, Sentinels are reached over TLS")
    func sentinelsWithTLS() throws {
        let settings = try configuration("redis: { sentinels: [s1], primary: main, tls: { server_name: redis.internal } }")
        let server = try settings.coordinatorConfiguration(redisURL: try #require(settings.redis.url)).redis
        #expect(server.displayName == "rediss+sentinel://s1:26379/main/0")
        #expect(server.serverName == "redis.internal")
    }

    @Test(
        "Unusable settings are rejected",
        arguments: [
            ("{ sentinels: [s1] }", "redis: sentinels requires the key primary: the primary's name"),
            ("{ primary: main }", "redis: primary requires the key sentinels: their addresses as host[:port]"),
            (
                "{ sentinels: [\"s1:x\"], primary: main }",
                "redis.sentinels[0]: expected a Sentinel as host[:port], such as sentinel-1:26379, got \"s1:x\""
            ),
            (
                "{ sentinels: [s1], primary: \"my main\" }",
                "redis.primary: expected the primary's name: 1-255 letters, digits, dots, dashes and underscores, got \"my main\""
            ),
            (
                "{ url: \"redis://a\", sentinels: [s1], primary: main }",
                "redis.sentinels: conflicts with redis.url or redis.url_env; keep one"
            ),
            (
                "{ url: \"redis+sentinel://s1\" }",
                "redis.url: expected a valid Redis URL (it does not name the primary; write redis+sentinel://HOST,HOST/NAME), got \"redis+sentinel://s1\""
            ),
            (
                "{ sentinels: [s1, s1], primary: main }",
                "redis.sentinels: expected 1-15 different Sentinels"
            ),
            (
                "{ url: \"redis://a\", tls: { server_name: b } }",
                "redis.tls: requires a URL that begins with rediss://, rediss+sentinel:// or rediss+cluster://"
            ),
            (
                "{ url: \"rediss://a\", tls: { server_name: 10.0.0.5 } }",
                "redis.tls.server_name: expected a host name, such as redis.internal, got 10.0.0.5"
            ),
            ("{ url: \"rediss://a\", tls: { cert: /dev/null } }", "redis.tls: expected both cert and key, or neither"),
            (
                "{ url: \"redis://a\", sentinel_password_file: f }",
                "redis.sentinel_password_file: requires Sentinels"
            ),
            ("{ sentinel: [s1], primary: main }", "redis.sentinel: unknown key; use redis.sentinels"),
        ])
    func unusableSettingsAreRejected(redis: String, error: String) {
        #expect(
            configurationErrors(of: "redis: \(redis)").contains { $0.hasSuffix(error) },
            "\(configurationErrors(of: "redis: \(redis)"))")
    }

    @Test("Null settings count as absent, and a user name may have its password in a file")
    func nullSettingsCountAsAbsent() throws {
        #expect(
            try configuration("redis: { url: redis://a, sentinels: null, primary: null, tls: null }").redis.url == "redis://a")
        let url = "redis+sentinel://sidecar@s1/main?sentinel_username=watcher"
        let settings = try configuration("redis: { url: \"\(url)\" }")
        #expect(throws: SidecarError.self) { try settings.coordinatorConfiguration(redisURL: url) }
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        try "secret\n".write(toFile: "\(folder.path)/password", atomically: false, encoding: .utf8)
        let files = "password_file: \(folder.path)/password, sentinel_password_file: \(folder.path)/password"
        let server = try configuration("redis: { url: \"\(url)\", \(files) }").coordinatorConfiguration(redisURL: url).redis
        #expect(server.username == "sidecar")
        #expect(server.password == "secret")
        guard case .primary(let sentinels) = server.address else { return #expect(Bool(false), "no Sentinels: \(server)") }
        #expect(sentinels.username == "watcher")
        #expect(sentinels.password == "secret")
    }

    @Test("A URL with an @ in its query is hidden completely")
    func urlWithInQueryIsHiddenCompletely() {
        let errors = configurationErrors(of: "redis: { url: \"redis+sentinel://s1?sentinel_password=p@hunter2\" }")
        #expect(errors.first?.hasSuffix("got \"redis+sentinel://***\"") ?? false, "\(errors)")
    }

    @Test("A Sentinel URL cannot name a server of a quorum")
    func sentinelURLCannotNameServerOfQuorum() {
        let urls = "[ \"redis://a\", \"redis://b\", \"redis+sentinel://s1/main\" ]"
        #expect(
            configurationErrors(of: "redis: { url: \"redis://main\", urls: \(urls) }").first?.hasSuffix(
                "redis.urls[2]: expected an independent server; a failover by Sentinels can lose granted locks")
                ?? false)
    }

    @Test(
        "The authority, the client certificate and the server name are used", .timeLimit(.minutes(1)),
        .enabled("this redis-server speaks TLS") { try await RedisProgram.current.speaksTLS })
    func authorityClientCertificateAndServerNameAreUsed() async throws {
        try await RedisServer.withServer(arguments: ["--bind", "127.0.0.1", "127.0.0.2"], listener: .tls) { server in
            let certificate = try #require(server.certificate)
            let url = "rediss://127.0.0.2:\(try #require(server.port))"
            _ = try await server.ask([
                "CONFIG", "SET", "tls-ca-cert-file", certificate.certificatePath, "tls-auth-clients", "yes",
            ])
            func connects(_ tls: String) async throws -> Bool {
                let settings = try configuration("redis: { url: \"\(url)\", timeout: 10s, tls: { \(tls) } }")
                let client = RedisClient(configuration: try settings.coordinatorConfiguration(redisURL: url).redis)
                let isConnected: Void? = try? await client.connect()
                await client.close()
                return isConnected != nil
            }
            let authority = "ca: \(certificate.certificatePath)"
            let clientCertificate = "cert: \(certificate.certificatePath), key: \(certificate.keyPath)"
            let cases = [
                ("\(authority), \(clientCertificate), server_name: localhost", true),
                ("\(authority), \(clientCertificate)", false),
                ("\(clientCertificate), server_name: localhost", false), ("\(authority), server_name: localhost", false),
            ]
            for (tls, expected) in cases {
                let isConnected = try await connects(tls)
                #expect(isConnected == expected, "\(tls)")
            }
        }
    }
}
