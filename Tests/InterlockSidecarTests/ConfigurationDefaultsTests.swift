import InterlockCore
import SidecarSettings
import Testing

/// Returns the configuration in `yaml`, read under the name `file.yaml`.
func configuration(
    _ yaml: String,
    environment: [String: String] = [:],
    flags: SidecarConfiguration.Overrides = .init()
) throws(ConfigurationError) -> SidecarConfiguration {
    try SidecarConfiguration.load(yaml: yaml, fileName: "file.yaml", environment: environment, flags: flags)
}

/// Returns the errors in `yaml`, one per line; empty if the configuration is valid.
func configurationErrors(
    of yaml: String,
    environment: [String: String] = [:],
    flags: SidecarConfiguration.Overrides = .init()
) -> [String] {
    do {
        _ = try configuration(yaml, environment: environment, flags: flags)
        return []
    } catch {
        return error.problems.map(\.description)
    }
}

@Suite("Configuration: defaults and accepted values")
struct ConfigurationDefaultsTests {
    @Test(
        "An empty file gives every setting its default",
        arguments: ["", "# only a comment\n", "services:\n", "redis: {}\nlisten:\n"]
    )
    func emptyFileGivesEverySettingItsDefault(yaml: String) throws {
        #expect(try configuration(yaml) == SidecarConfiguration())
    }

    @Test("A missing file gives every setting its default")
    func noFile() throws {
        #expect(try SidecarConfiguration.load(file: nil, environment: [:]) == SidecarConfiguration())
    }

    @Test("The embedded Redis accepts a prefix")
    func embeddedPrefix() throws {
        let redis = try configuration("redis: { prefix: 'a:', timeout: 1.5s }").redis
        #expect(redis.isEmbedded)
        #expect(redis.prefix == "a:")
        #expect(redis.timeout == .milliseconds(1500))
    }

    @Test("Every server setting is read")
    func everyServerSettingIsRead() throws {
        let settings = try configuration(
            """
            redis: { url: "rediss://:pw@cache:6380/2", urls: null }
            listen: { resp: "[::1]:0", http: "localhost:81", unix: /tmp/s, hosts: [a.example], max_connections: 5 }
            log: { level: debug, format: json }
            locks: { key_prefix: "", max_ttl: 2h, max_wait: 0s, max_hold: 8h, wait_replicas: 2 }
            fleet_size: 3
            """
        )
        var expected = SidecarConfiguration()
        expected.redis.url = "rediss://:pw@cache:6380/2"
        expected.listen.resp = SocketEndpoint(host: "::1", port: 0)
        expected.listen.http = SocketEndpoint(host: "localhost", port: 81)
        expected.listen.unix = "/tmp/s"
        expected.listen.hosts = ["a.example"]
        expected.listen.maximumConnections = 5
        expected.log.level = .debug
        expected.log.format = .json
        expected.locks = LockSettings(
            keyPrefix: "", minimumTTL: .milliseconds(100), maximumTTL: .seconds(7200), maximumWait: .zero,
            maximumHold: .seconds(8 * 3600), waitReplicas: 2)
        expected.fleetSize = 3
        #expect(settings == expected)
    }

    @Test("Every service setting is read")
    func everyServiceSettingIsRead() throws {
        let settings = try configuration(
            """
            services:
              catalog:
                url: "https://api.example.com:8443/v1"
                limits: [ { limit: 10, per: 1s, algorithm: fixed }, { name: day, limit: 50000, per: 1d } ]
                on_limit: { action: trip, pause: 1s..2s, max_waiting: 7 }
                when_redis_is_down: deny
                permit_ttl: 90s
                breaker: { failure_rate: 12.5%, slow_call: 2s, slow_rate: 90%, window: 1m, minimum_calls: 2,
                           open_for: 7s, half_open_permits: 4, reporters: 1 }
            """
        )
        var expected = ServiceDefinition(
            name: "catalog",
            upstream: UpstreamSettings(url: "https://api.example.com:8443/v1"),
            limits: [
                LimitDefinition(name: "1s", limit: 10, window: .seconds(1)),
                LimitDefinition(name: "day", limit: 50000, window: .seconds(86_400)),
            ],
            onLimit: LimitPolicy(action: .trip, pause: .seconds(1) ... .seconds(2), maximumWaiting: 7),
            breaker: BreakerSettings(
                failureRate: 0.125,
                slowCall: .seconds(2),
                slowRate: 0.9,
                window: .time(.seconds(60)),
                minimumCalls: 2,
                openFor: .seconds(7) ... .seconds(7),
                halfOpenPermits: 4
            ),
            whenRedisIsDown: .deny
        )
        expected.permitLifetime = .seconds(90)
        #expect(settings.services == [expected])
        #expect(settings.warnings.isEmpty)
    }

    @Test("Every limit algorithm is read")
    func everyLimitAlgorithmIsRead() throws {
        let settings = try configuration(
            """
            services:
              catalog:
                limits:
                  - { limit: 10, per: 1s, algorithm: sliding }
                  - { name: even, limit: 10, per: 1s, algorithm: gcra }
                  - { limit: 2, per: 1m, per_subject: true, algorithm: gcra, burst: 4, shadow: true }
                  - { limit: 3, per: 1h, subject: required, per_subject: true }
            """
        )
        let expected = [
            LimitDefinition(name: "1s", limit: 10, window: .seconds(1), algorithm: .sliding),
            LimitDefinition(name: "even", limit: 10, window: .seconds(1), algorithm: .gcra(burst: 0)),
            LimitDefinition(
                name: "1m-subject", limit: 2, window: .seconds(60), algorithm: .gcra(burst: 4), isPerSubject: true, isShadow: true
            ),
            LimitDefinition(name: "1h-subject", limit: 3, window: .seconds(3600), isPerSubject: true, requiresSubject: true),
        ]
        #expect(settings.services.first?.limits == expected)
    }

    @Test("A service without a value causes a warning, but {} does not")
    func emptyService() throws {
        let warnings = try configuration("services: { a: , b: {} }").warnings
        #expect(warnings == ["services.a is empty; set its url or limits, or write {} for the defaults"])
    }

    @Test("Services keep the order of the file")
    func servicesKeepOrderOfFile() throws {
        let settings = try configuration("services: { zebra: {}, ant: , mole: {} }")
        #expect(settings.services.map(\.name) == ["zebra", "ant", "mole"])
        #expect(settings.services[1] == ServiceDefinition(name: "ant"))
    }

    @Test(
        "An unnamed limit is named after its window in the shortest form",
        arguments: [
            ("60s", "1m"), ("90s", "90s"), ("1000ms", "1s"), ("1.5s", "1500ms"), ("24h", "1d"), ("0.5d", "12h"),
        ]
    )
    func limitName(window: String, name: String) throws {
        let settings = try configuration("services: { a: { limits: [ { limit: 1, per: \(window) } ] } }")
        #expect(settings.services.first?.limits.first?.name == name)
    }

    @Test("A limit per subject and a global one with the same window have different names")
    func subjectLimitName() throws {
        let settings = try configuration(
            "services: { a: { limits: [ { limit: 9, per: 1s }, { limit: 2, per: 1s, per_subject: true } ] } }"
        )
        #expect(settings.services.first?.limits.map(\.name) == ["1s", "1s-subject"])
    }

    @Test("An alias expands to the value of its anchor")
    func aliasExpandsToValueOfAnchor() throws {
        let settings = try configuration("services: { a: &s { permit_ttl: 3s }, b: *s }")
        #expect(settings.services.map(\.permitLifetime) == [.seconds(3), .seconds(3)])
    }
}
