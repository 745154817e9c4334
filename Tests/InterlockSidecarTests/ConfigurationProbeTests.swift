import InterlockCore
import SidecarSettings
import Testing

@Suite("Configuration: probes")
struct ConfigurationProbeTests {
    private func probe(_ yaml: String) throws -> ProbeSettings {
        let settings = try configuration("services: { a: { url: 'http://a.example', probe: \(yaml) } }")
        return try #require(settings.services.first?.probe)
    }

    @Test("Every setting is read")
    func everySettingIsRead() throws {
        let settings = try probe(
            """
            { path: /status?full=1, every: 10s, timeout: 2s, unhealthy_after: 3, healthy_after: 4, trial: true, from: all,
              expect: { status: [200, 301..302], headers: { X-State: up }, body: fine,
                        json: { "$.status": ok, "$.ready": true, "$.gone": null, "$['a b'][0]": 5 } } }
            """)
        let expectation = ProbeExpectation(
            statuses: StatusSet(200...200, 301...302), headers: [.init(name: "X-State", value: "up")],
            body: [
                .contains("fine"), .json(path: "$.status", equals: "ok"),
                .json(path: "$.ready", equals: "true"), .json(path: "$.gone", equals: "null"),
                .json(path: "$['a b'][0]", equals: "5"),
            ])
        let expected = ProbeSettings(
            target: .http("/status?full=1"), interval: .seconds(10), timeout: .seconds(2), expectation: expectation,
            unhealthyAfter: 3, healthyAfter: 4, isFollowedByTrial: true, origin: .all)
        #expect(settings == expected)
    }

    @Test("Omitted settings have their defaults")
    func omittedSettingsHaveDefaults() throws {
        #expect(try probe("{ path: / }") == ProbeSettings(target: .http("/")))
    }

    @Test("A full URL or a TCP address does not need a service URL")
    func elsewhere() throws {
        let settings = try configuration(
            """
            services:
              a: { probe: { url: "https://status.example/health" } }
              b: { probe: { tcp: "db.example:5432" } }
            """)
        #expect(
            settings.services.map(\.probe?.target) == [
                .http("https://status.example/health"), .tcp(host: "db.example", port: 5432),
            ])
    }

    @Test("The default timeout is shorter than a short interval")
    func shortInterval() throws {
        #expect(try probe("{ path: /, every: 500ms }").timeout == .milliseconds(400))
    }

    @Test("A null probe disables probing")
    func nullProbeDisablesProbing() throws {
        let settings = try configuration("services: { a: { probe: null } }")
        #expect(settings.services.first?.probe == nil)
        #expect(settings.warnings.isEmpty)
    }

    @Test(
        "An invalid setting is rejected with its location",
        arguments: [
            ("{}", ": expected one of the keys path, url and tcp: the target of the probe"),
            ("{ path: /, tcp: 'a:1' }", ".tcp: expected only one of path, url and tcp"),
            ("{ path: status }", ".path: expected a path that begins with / and has no spaces, got \"status\""),
            ("{ path: /grün }", ".path: expected a path that begins with / and has no spaces, got \"/grün\""),
            (
                "{ url: 'ftp://a' }",
                ".url: expected a URL that begins with http:// or https:// and names a host, got \"ftp://a\""
            ),
            ("{ tcp: 'a:0' }", ".tcp: expected HOST:PORT with a port of 1 or more, got \"a:0\""),
            ("{ tcp: 'a:1', expect: { body: x } }", ".expect: requires path or url; a TCP probe has no response to check"),
            ("{ path: /, every: 5ms }", ".every: expected a duration of 10ms or more, got 5ms"),
            ("{ path: /, every: 2s, timeout: 2s }", ".timeout: expected a duration shorter than every (2s), got 2s"),
            ("{ path: /, unhealthy_after: 0 }", ".unhealthy_after: expected a whole number of 1 or more, got 0"),
            ("{ path: /, trial: perhaps }", ".trial: expected true or false, got \"perhaps\""),
            ("{ path: /, from: some }", ".from: expected one or all, got \"some\""),
            ("{ path: /, expect: { status: [] } }", ".expect.status: expected \(Self.statuses), got an empty list"),
            ("{ path: /, expect: { status: 399..200 } }", ".expect.status: expected \(Self.statuses), got 399..200"),
            ("{ path: /, expect: { status: [200, 99] } }", ".expect.status[1]: expected \(Self.statuses), got 99"),
            ("{ path: /, expect: { status: 200..300..400 } }", ".expect.status: expected \(Self.statuses), got 200..300..400"),
            ("{ path: /, expect: { body: '' } }", ".expect.body: expected a string of 1-1000 bytes, got \"\""),
            ("{ path: /, expect: { body_matches: '^ok' } }", ".expect.body_matches: \(Self.noExpressions)"),
            ("{ path: /, expect: { body: ok, body_matches: null } }", ".expect.body_matches: \(Self.noExpressions)"),
            (
                "{ path: /, expect: { json: { '$..a': x } } }",
                ".expect.json.$..a: expected a path such as $.status or $.checks[0]['disk']: expected a name after the dot; "
                    + "put characters other than letters, digits, _ and - in ['…'] (character 3)"
            ),
            ("{ path: /, expect: { headers: { 'a b': x } } }", ".expect.headers.a b: expected a header name"),
        ]
    )
    func invalidSettingIsRejectedWithLocation(yaml: String, error: String) {
        let yaml = "services:\n  a:\n    url: http://a.example\n    probe: \(yaml)"
        #expect(configurationErrors(of: yaml) == ["file.yaml:4: services.a.probe\(error)"])
    }

    private static let noExpressions =
        "regular expressions are no longer supported; write body: TEXT to require a string in the body, "
        + "or json: { PATH: VALUE } to require a value of a JSON body"
    private static let statuses = "a status or a range such as 200..399, within 100..599"

    @Test("A path without a service URL is rejected")
    func noURL() {
        #expect(
            configurationErrors(of: "services: { a: { probe: { path: / } } }") == [
                "file.yaml:1: services.a.probe: path is relative to the service's url, which is not set; "
                    + "set it, or replace path with url"
            ])
    }

    @Test("A URL with a password is rejected, and the password is not repeated")
    func urlWithPasswordIsRejected() {
        let errors = configurationErrors(of: "services: { a: { probe: { url: 'http://me:secret@a.example' } } }")
        #expect(errors.count == 1)
        #expect(!errors.joined().contains("secret"))
    }

    @Test("A service name too long for the election lock is rejected unless every sidecar probes")
    func longName() {
        let name = String(repeating: "a", count: 239)
        #expect(
            configurationErrors(of: "services: { \(name): { probe: { tcp: 'a:1' } } }") == [
                "file.yaml:1: services.\(name.prefix(80))….probe: from: one requires a service name of at most 238 bytes; "
                    + "shorten the name, or set from: all"
            ])
        #expect(configurationErrors(of: "services: { \(name): { probe: { tcp: 'a:1', from: all } } }").isEmpty)
    }
}
