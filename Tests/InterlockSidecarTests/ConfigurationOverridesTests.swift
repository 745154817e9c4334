import InterlockCore
import SidecarSettings
import Testing

@Suite("Configuration: environment and flags")
struct ConfigurationOverridesTests {
    private let file = "redis: { url: \"redis://file\" }\nlisten: { resp: \"127.0.0.1:1\", http: \"127.0.0.1:2\" }"

    @Test("The environment overrides the file, and a flag overrides both")
    func environmentOverridesFile() throws {
        let settings = try configuration(
            file,
            environment: [
                "INTERLOCK_REDIS_URL": "redis://variable", "INTERLOCK_RESP": "127.0.0.1:3", "INTERLOCK_UNIX": "/tmp/variable",
                "INTERLOCK_DATA_DIR": "/var/variable", "INTERLOCK_LOG_LEVEL": "error",
            ],
            flags: .init(redisURL: "unix:///flag", dataDirectory: "/var/flag")
        )
        #expect(settings.redis.url == "unix:///flag")
        #expect(settings.listen.resp == SocketEndpoint(host: "127.0.0.1", port: 3))
        #expect(settings.listen.http == SocketEndpoint(host: "127.0.0.1", port: 2))
        #expect(settings.listen.unix == "/tmp/variable")
        #expect(settings.dataDirectory == "/var/flag")
        #expect(settings.log.level == .error)
    }

    @Test("An empty variable counts as not set")
    func emptyVariable() throws {
        #expect(
            try configuration(file, environment: ["INTERLOCK_LOG_LEVEL": "", "INTERLOCK_UNIX": ""]).redis.url == "redis://file")
    }

    @Test("An empty INTERLOCK_REDIS_URL is rejected, so that hosts do not lock separately")
    func emptyRedis() {
        let errors = configurationErrors(of: "", environment: ["INTERLOCK_REDIS_URL": ""])
        #expect(errors.count == 1)
        #expect(errors.first?.hasPrefix("INTERLOCK_REDIS_URL: expected a URL that begins with redis://") == true)
    }

    @Test("An unknown variable causes a warning, and so does a file that names no Redis")
    func unknownVariable() throws {
        let settings = try configuration("fleet_size: 2", environment: ["INTERLOCK_REDIS_UTL": "redis://h", "OTHER": "x"])
        #expect(settings.warnings.count == 1)
        #expect(settings.warnings.first?.hasPrefix("INTERLOCK_REDIS_UTL is not a setting of interlock serve") == true)
        #expect(settings.embeddedRedisWarning?.contains("redis.embedded: true") == true)
        #expect(try configuration("redis: { embedded: true }").embeddedRedisWarning == nil)
        #expect(try configuration("redis: { url: redis://h }").embeddedRedisWarning == nil)
        #expect(configurationErrors(of: "redis: { url: redis://h, embedded: true }").count == 1)
    }

    @Test("A URL that contains ${NAME} is rejected; the error suggests a variable or a file")
    func variableInURL() throws {
        let errors = configurationErrors(of: "redis: { url: 'redis://:${SECRET}@h' }")
        #expect(errors.first?.contains("variables in URLs are not expanded") == true)
        #expect(errors.first?.contains("redis.url_env") == true)
        #expect(errors.first?.contains("redis.password_file") == true)
        let settings = try configuration("redis: { url_env: SHOP_REDIS }", environment: ["SHOP_REDIS": "redis://:hunter2@h"])
        #expect(settings.redis.url == "redis://:hunter2@h")
        #expect(configurationErrors(of: "redis: { url_env: SHOP_REDIS }").count == 1)
    }

    @Test("An error in a variable or a flag names it")
    func slots() {
        let errors = configurationErrors(
            of: "",
            environment: ["INTERLOCK_LOG_LEVEL": "loud", "INTERLOCK_REDIS_URL": "tcp://u:hunter2@h"],
            flags: .init(http: "7380")
        )
        #expect(
            errors == [
                """
                INTERLOCK_REDIS_URL: expected a URL that begins with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster:// \
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
