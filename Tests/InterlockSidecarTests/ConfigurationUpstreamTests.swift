import FoundationEssentials
import InterlockCore
import InterlockProcesses
import SidecarSettings
import Testing

@Suite("Configuration: the upstream of a service")
struct ConfigurationUpstreamTests {
    private func service(_ yaml: String) throws -> ServiceDefinition? {
        try configuration("services:\n  a:\n    \(yaml)").services.first
    }

    @Test("A URL alone gives every other setting its default")
    func urlAloneGivesOtherSettingsTheirDefaults() throws {
        let settings = try service("url: \"https://api.example.com/v1\"")
        #expect(settings?.upstream == UpstreamSettings(url: "https://api.example.com/v1"))
        #expect(try service("url: null") == ServiceDefinition(name: "a"))
    }

    @Test("The default permit lifetime exceeds the maximum duration of a call")
    func permitLifetime() throws {
        let url = "url: \"http://h\""
        #expect(try service(url)?.permitLifetime == .seconds(70))
        #expect(try service(url + "\n    timeouts: { total: 5m }")?.permitLifetime == .seconds(310))
        // The value is capped at the maximum permit lifetime, so that a reload accepts it.
        #expect(try service(url + "\n    timeouts: { total: 1d }")?.permitLifetime == .seconds(86_400))
        #expect(try service(url + "\n    timeouts: { total: 5m }\n    permit_ttl: 3s")?.permitLifetime == .seconds(3))
    }

    @Test("A permit_ttl shorter than the longest call causes a warning")
    func shortPermitLifetime() throws {
        let yaml = "services:\n  a:\n    url: http://127.0.0.1:1\n    permit_ttl: "
        let short = try configuration(yaml + "3s")
        #expect(short.warnings.count == 1)
        let long = try configuration(yaml + "2m")
        #expect(long.warnings.isEmpty)
    }

    @Test("A connect timeout above the total timeout causes a warning")
    func longConnect() throws {
        let yaml = "services:\n  a:\n    url: http://127.0.0.1:1\n    timeouts: "
        let warnings = try configuration(yaml + "{ connect: 30s, total: 1s }").warnings
        #expect(warnings == ["services.a.timeouts.connect has no effect: timeouts.total is shorter and ends the call first"])
        #expect(try configuration(yaml + "{ total: 1s }").warnings.isEmpty)
    }

    @Test("Only total: none removes a call's total timeout")
    func onlyNoneRemovesTotalTimeout() throws {
        let url = "url: \"http://h\"\n    "
        let endless = try configuration("services:\n  a:\n    \(url)timeouts: { total: none, idle: 30s }").services.first
        #expect(endless?.upstream?.totalTimeout == nil && endless?.upstream?.idleTimeout == .seconds(30))
        #expect(endless?.permitLifetime == .seconds(60))
        let kept = try configuration("services:\n  a:\n    \(url)connections: { idle: 2s, max_age: 1h }").services.first
        #expect(kept?.upstream?.connections == ConnectionSettings(idle: .seconds(2), maximumAge: .seconds(3600)))
        let aged = try configuration("services:\n  a:\n    \(url)connections: { max_age: none }").services.first
        #expect(aged?.upstream?.connections == ConnectionSettings(maximumAge: nil))
        #expect(throws: (any Error).self) { try configuration("services:\n  a:\n    \(url)timeouts: { idle: none }") }
        #expect(throws: (any Error).self) { try configuration("services:\n  a:\n    \(url)connections: { idle: 0s }") }
    }

    private static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBdTCCARugAwIBAgIUApE3cstP/ToAkFbFncpOLNyR9PYwCgYIKoZIzj0EAwIw
        DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjgxNzA3NDVaGA8yMTI2MTEwNDE3MDc0
        NVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNW2
        kZBofpyQxlgxgu8WjlGirjei6LFyvYageUqgbA0GFUtPivxMBOhwCh98KeN+w4J2
        fvuz8woMTdL9ikbAtKKjUzBRMB0GA1UdDgQWBBQ/2baFBMGhkcRss97zytZzTU2C
        UzAfBgNVHSMEGDAWgBQ/2baFBMGhkcRss97zytZzTU2CUzAPBgNVHRMBAf8EBTAD
        AQH/MAoGCCqGSM49BAMCA0gAMEUCIGoBaKXDN6HMKtx7IWGnJbvSDsn9a6gihxmF
        8dh1/JlhAiEAzIPSRxtWcer7n3DMn0WOMr5dIfZlU54dTZYqSrYZEqk=
        -----END CERTIFICATE-----
        """

    @Test("Certificate authorities require an https:// URL")
    func plainURL() throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/ca.pem"
        try Data(Self.authority.utf8).write(to: URL(filePath: file))
        #expect(
            configurationErrors(of: "services:\n  a:\n    { url: \"http://h\", tls: { ca: \(file) } }")
                == ["file.yaml:3: services.a.tls: requires a url that begins with https://"])
    }

    @Test("Every setting is read")
    func everySettingIsRead() throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/ca.pem"
        try Data(Self.authority.utf8).write(to: URL(filePath: file))
        let settings = try configuration(
            """
            services:
              a:
                url: "https://api.example.com:8443/v1"
                tls: { ca: \(file) }
                timeouts: { connect: 1s, first_byte: 2s, idle: 5s, total: 3s }
                connections: { idle: 6s, max_age: 7s }
                retries: { attempts: 2, budget: 25%, min_per_second: 0 }
                fallback: { last_good: 5m }
                concurrency: 7
                on_limit: { action: wait, patience: 4s }
            """)
        var expected = UpstreamSettings(
            url: "https://api.example.com:8443/v1", connectTimeout: .seconds(1), firstByteTimeout: .seconds(2),
            idleTimeout: .seconds(5), totalTimeout: .seconds(3),
            connections: ConnectionSettings(idle: .seconds(6), maximumAge: .seconds(7)),
            retries: RetrySettings(attempts: 2, budget: 0.25, minimumPerSecond: 0),
            fallback: .lastGood(maximumAge: .seconds(300)))
        expected.certificateAuthority = file
        expected.certificateAuthorityDigest = settings.services.first?.upstream?.certificateAuthorityDigest
        #expect(expected.certificateAuthorityDigest != nil)
        #expect(settings.services.first?.upstream == expected)
        #expect(settings.services.first?.concurrency == 7)
        #expect(settings.services.first?.onLimit == LimitPolicy(action: .wait, maximumWait: .seconds(4)))
        #expect(settings.warnings.isEmpty)
    }

    @Test(
        "A fixed fallback has a status and an optional body and type",
        arguments: [
            ("{ status: 503 }", .fixed(status: 503, body: "", mediaType: "text/plain")),
            (
                "{ status: 200, body: '[]', type: application/json }",
                .fixed(status: 200, body: "[]", mediaType: "application/json")
            ), ("null", nil),
        ] as [(String, FallbackSettings?)])
    func fixedFallbackHasStatusAndOptionalBodyAndType(yaml: String, settings: FallbackSettings?) throws {
        #expect(try service("url: \"http://h\"\n    fallback: \(yaml)")?.upstream?.fallback == settings)
    }

    @Test(
        "An invalid value is rejected with its location",
        arguments: [
            ("url: \"http://u:p@h\"", "url: expected a URL without user, query or fragment, got \"http://***@h\""),
            ("url: \"http://h/a?b\"", "url: expected a URL without user, query or fragment, got \"http://h/a?***\""),
            ("url: \"http://h/#b\"", "url: expected a URL without user, query or fragment, got \"http://h/#b\""),
            (
                "url: \"http://h/a/../b\"",
                "url: expected a URL whose path is percent-encoded and has no . or .. segments, got \"http://h/a/../b\""
            ),
            (
                "url: \"http://h:99999\"",
                "url: expected a URL that begins with http:// or https:// and names a host, got \"http://h:99999\""
            ),
            ("timeouts: { total: 1s }", "timeouts: requires url, which is not set"),
            (
                "{ url: \"https://h\", tls: { ca: /dev/null } }",
                "tls.ca: /dev/null contains no CA certificate in PEM format"
            ),
            (
                "{ url: \"https://h\", tls: { ca: /nowhere.pem } }",
                "tls.ca: expected the path of a readable PEM file, got \"/nowhere.pem\""
            ),
            ("{ url: \"https://h\", tls: {} }", "tls: expected the key ca: the path of a PEM file"),
            ("{ url: \"http://h\", timeouts: { connect: 0s } }", "timeouts.connect: expected a duration of 1ms or more, got 0s"),
            ("{ url: \"http://h\", timeouts: { conect: 1s } }", "timeouts.conect: unknown key; did you mean connect?"),
            (
                "{ url: \"http://h\", retries: { attempts: 11 } }",
                "retries.attempts: expected a whole number of 10 or less, got 11"
            ),
            (
                "{ url: \"http://h\", retries: { budget: 0.1 } }",
                "retries.budget: expected a percentage such as 50%, got 0.1; did you mean 10%?"
            ),
            ("{ url: \"http://h\", fallback: {} }", "fallback: expected last_good, or status with optional body and type"),
            (
                "{ url: \"http://h\", fallback: { status: 199 } }",
                "fallback.status: expected a whole number of 200 or more, got 199"
            ),
            (
                "{ url: \"http://h\", fallback: { last_good: 5m, body: x } }",
                "fallback.body: conflicts with last_good; remove one of them"
            ),
        ])
    func invalidValueIsRejectedWithLocation(yaml: String, error: String) {
        #expect(configurationErrors(of: "services:\n  a:\n    \(yaml)") == ["file.yaml:3: services.a.\(error)"])
    }
}
