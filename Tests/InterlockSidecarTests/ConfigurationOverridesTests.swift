import InterlockSidecar
import Testing

@Suite("Configuration: environment and flags")
struct ConfigurationOverridesTests {
    private let file = "redis: { url: \"redis://file\" }\nlisten: { resp: \"127.0.0.1:1\", http: \"127.0.0.1:2\" }"

    @Test("the environment overrides the file, a flag overrides both")
    func precedence() throws {
        let read = try configuration(
            file,
            environment: [
                "INTERLOCK_REDIS_URL": "redis://variable", "INTERLOCK_RESP": "127.0.0.1:3", "INTERLOCK_UNIX": "/tmp/variable",
                "INTERLOCK_DATA_DIR": "/var/variable", "INTERLOCK_LOG_LEVEL": "error",
            ],
            flags: .init(redisURL: "unix:///flag", dataDirectory: "/var/flag")
        )
        #expect(read.redis.url == "unix:///flag")
        #expect(read.listen.resp == SocketEndpoint(host: "127.0.0.1", port: 3))
        #expect(read.listen.http == SocketEndpoint(host: "127.0.0.1", port: 2))
        #expect(read.listen.unix == "/tmp/variable")
        #expect(read.dataDirectory == "/var/flag")
        #expect(read.log.level == .error)
    }

    @Test("an empty variable counts as not set")
    func emptyVariable() throws {
        #expect(try configuration(file, environment: ["INTERLOCK_REDIS_URL": ""]).redis.url == "redis://file")
    }

    @Test("a mistake in a variable or a flag names it")
    func places() {
        let refused = refusals(
            of: "",
            environment: ["INTERLOCK_LOG_LEVEL": "loud", "INTERLOCK_REDIS_URL": "tcp://u:hunter2@h"],
            flags: .init(http: "7380")
        )
        #expect(
            refused == [
                """
                INTERLOCK_REDIS_URL: expected a URL that begins with redis://, rediss:// or unix:// \
                (others are not supported), got "tcp://***@h"
                """,
                """
                INTERLOCK_LOG_LEVEL: expected trace, debug, info, notice, warning, error or critical, got "loud"
                """,
                "--http: expected HOST:PORT such as 127.0.0.1:7379 or [::1]:7379, port 0-65535, got \"7380\"",
            ]
        )
    }
}
