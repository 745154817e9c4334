import FoundationEssentials
import InterlockCore
import SidecarSettings
import Testing

@Suite("Configuration: domains of Envoy's rate limit service")
struct ConfigurationDomainTests {
    /// Returns the domains of a configuration that imports a file with this text.
    private static func imported(_ yaml: String) throws -> DomainSettings {
        let file = FileManager.default.temporaryDirectory.appending(path: "import-\(UInt64.random(in: .min ... .max)).yaml")
        try Data(yaml.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        do throws(ConfigurationError) {
            return try SidecarConfiguration.load(yaml: "rls: { import: \"\(file.path())\" }", fileName: "file.yaml").domains
        } catch {
            let text = error.description.replacing(file.path(), with: "import.yaml")
            throw InvalidFile(text: text)
        }
    }

    private struct InvalidFile: Error, Equatable { var text: String }

    @Test("Rules are read in every form, with and without optional settings")
    func rulesAreReadInEveryForm() throws {
        let settings = try configuration(
            """
            listen: { grpc: 127.0.0.1:7381 }
            rls: { timeout: 10ms }
            rate_limits:
              edge:
                independent: true
                shadow: true
                when_redis_is_down: deny
                max_counters: 7
                descriptors:
                  - { key: ip, limit: 10, per: 1s }
                  - { key: ip, value: 50.0.0.5, limit: 0 }
                  - { key: path, value: "/api/*", share: true, limit: 5, per: 1m, algorithm: aligned, name: api, shadow: true }
                  - { key: user, limit: 5, per: 1m, algorithm: gcra, burst: 2, replaces: [api], detailed_metrics: true }
                  - { key: ldap, unlimited: true }
                  - key: tenant
                    descriptors: [{ key: user, limit: 1, per: 1h, algorithm: sliding }]
            """)
        #expect(settings.listen.grpc == SocketEndpoint(host: "127.0.0.1", port: 7381))
        #expect(settings.domains.timeout == .milliseconds(10))
        let domain = try #require(settings.domains.definitions.first)
        #expect(domain.name == "edge" && domain.isIndependent && domain.isShadow && domain.whenRedisIsDown == .deny)
        #expect(domain.maximumCounters == 7 && !domain.countsRefused)
        let index = DescriptorIndex(domain.rules)
        #expect(index.rules.map(\.path) == ["ip", "ip=50.0.0.5", "path=/api/*", "user", "ldap", "tenant,user"])
        func rate(_ count: Int64, _ name: String, _ seconds: Int, _ algorithm: LimitAlgorithm = .fixed) -> LimitDefinition {
            LimitDefinition(name: name, limit: count, window: .seconds(seconds), algorithm: algorithm)
        }
        #expect(
            index.rules.map(\.rule.limit) == [
                .rate(rate(10, "1s", 1), isAligned: false), .blocked(window: .seconds(86_400)),
                .rate(rate(5, "1m", 60), isAligned: true),
                .rate(rate(5, "1m", 60, .gcra(burst: 2)), isAligned: false), .unlimited,
                .rate(rate(1, "1h", 3600, .sliding), isAligned: false),
            ])
    }

    @Test(
        "Errors name their lines",
        arguments: [
            ("{ key: a, limit: 1 }", "expected the key per: a duration such as 1s"),
            ("{ key: a, per: 1s }", "per: requires a limit"),
            (
                "{ key: a, limit: 1, per: 1s, unlimited: true }",
                "limit: conflicts with unlimited: true; remove one of them"
            ),
            ("{ key: a, limit: 1, per: 1s, burst: 2 }", "burst: requires algorithm: gcra"),
            ("{ key: a, value: b, share: true, limit: 1, per: 1s }", "share: true requires a value with a star"),
            ("{ limit: 1, per: 1s }", "expected the key key: the key of a descriptor's entry"),
            ("{ key: a, limit: 20000, per: 1s, algorithm: sliding }", "expected a limit of 10000 or less"),
        ])
    func errorsNameLines(rule: String, message: String) {
        let errors = configurationErrors(of: "rate_limits:\n  edge:\n    descriptors:\n      - \(rule)")
        #expect(errors.count >= 1 && errors.allSatisfy { $0.hasPrefix("file.yaml:4: rate_limits.edge.descriptors[0]") })
        #expect(errors.contains { $0.contains(message) }, "\(errors)")
    }

    @Test("A duplicate rule is rejected, and so is count_refused without independent rules")
    func duplicateRuleIsRejected() throws {
        let yaml = """
            rate_limits:
              edge:
                count_refused: true
                descriptors:
                  - { key: a, limit: 1, per: 1s }
                  - { key: a, limit: 2, per: 1s }
            """
        #expect(
            configurationErrors(of: yaml) == [
                "file.yaml:3: rate_limits.edge.count_refused: true requires independent: true; other rules count a request together or not at all",
                "file.yaml:6: rate_limits.edge.descriptors[1]: duplicate rule for this value of the key \"a\"; remove one",
            ])
    }

    @Test("A configuration of the reference implementation is accepted unchanged")
    func importing() throws {
        let settings = try Self.imported(
            """
            domain: messaging
            descriptors:
              # Only five marketing messages a day.
              - key: message_type
                value: marketing
                descriptors:
                  - key: to_number
                    rate_limit: { unit: day, requests_per_unit: 5 }
              - key: to_number
                rate_limit: { unit: Week, requests_per_unit: 100, name: all, replaces: [{ name: other }] }
                shadow_mode: true
                detailed_metric: true
            """)
        let domain = try #require(settings.definitions.first)
        #expect(domain.name == "messaging" && domain.isIndependent && domain.countsRefused)
        let index = DescriptorIndex(domain.rules)
        #expect(index.rules.map(\.path) == ["message_type=marketing,to_number", "to_number"])
        #expect(
            index.rules[0].rule.limit
                == .rate(LimitDefinition(name: "1d", limit: 5, window: .seconds(86_400)), isAligned: true))
        let second = index.rules[1].rule
        #expect(second.isShadow && second.hasDetailedMetrics && second.name == "all" && second.replaces == ["other"])
    }

    @Test(
        "An unsupported setting is rejected with its line in the imported file",
        arguments: [
            ("quota_mode: true", "import.yaml:4: descriptors[0].quota_mode: quota_mode is not supported"),
            ("metadata: { a: b }", "import.yaml:4: descriptors[0].metadata: metadata is not supported"),
            ("rate_limit: { unit: fortnight, requests_per_unit: 1 }", "import.yaml:4: descriptors[0].rate_limit.unit: expected"),
            ("rate_limit: { requests_per_unit: 1 }", "import.yaml:4: descriptors[0].rate_limit: expected the key unit"),
            (
                "rate_limit: { unlimited: true, unit: day }",
                "import.yaml:4: descriptors[0].rate_limit.unit: conflicts with unlimited"
            ),
            ("rate_limit: { unit: day, name: a, replaces: [{ name: a }] }", "a limit cannot replace itself"),
            ("share_threshold: true", "import.yaml:4: descriptors[0].share_threshold: true requires a value with a star"),
            ("reqests: 1", "import.yaml:4: descriptors[0].reqests: unknown key"),
        ])
    func unsupportedSettingIsRejectedWithItsLine(line: String, message: String) throws {
        let error = #expect(throws: InvalidFile.self) {
            _ = try Self.imported("domain: x\ndescriptors:\n  - key: a\n    \(line)\n")
        }
        #expect(error?.text.contains(message) == true, "\(error?.text ?? "")")
    }

    @Test("The error for an imported file that is missing or has no domain names the file")
    func missing() throws {
        #expect(configurationErrors(of: "rls: { import: /nowhere/x.yaml }") == ["/nowhere/x.yaml: there is no such file"])
        let error = #expect(throws: InvalidFile.self) { _ = try Self.imported("descriptors: []") }
        #expect(error?.text == "import.yaml:1: expected the key domain: the domain's name")
    }

    // MARK: Rules without effect

    /// Returns the warnings for a domain with these rules, each a line of YAML.
    private static func warnings(_ rules: String...) throws -> [String] {
        let yaml = "listen: { grpc: 127.0.0.1:7381 }\nrate_limits:\n  edge:\n    descriptors:\n"
        return try configuration(yaml + rules.map { "      - \($0)\n" }.joined()).warnings
    }

    @Test("A rule that replaces itself, directly or through another rule, is rejected")
    func replacesItself() {
        let start = "rate_limits:\n  edge:\n    descriptors:\n"
        #expect(
            configurationErrors(of: start + "      - { key: a, limit: 1, per: 1s, name: x, replaces: [x] }") == [
                "file.yaml:4: rate_limits.edge.descriptors[0].replaces: a rule cannot replace itself; remove \"x\""
            ])
        let errors = configurationErrors(
            of: start + """
                      - { key: a, limit: 1, per: 1s, name: x, replaces: [y] }
                      - { key: b, descriptors: [{ key: c, limit: 1, per: 1s, name: y, replaces: [z] }] }
                      - { key: d, limit: 1, per: 1s, name: z, replaces: [x] }
                """)
        #expect(errors.count == 1)
        #expect(errors.first?.contains("\"x\" replaces \"y\" replaces \"z\" replaces \"x\"") == true, "\(errors)")
    }

    @Test("A rule that replaces a missing or ineffective rule causes a warning")
    func replacesNothing() throws {
        let unknown = try Self.warnings("{ key: a, limit: 1, per: 1s, name: here, replaces: [her] }")
        #expect(unknown.count == 1)
        #expect(unknown.first?.contains("rate_limits.edge.descriptors[0].replaces") == true, "\(unknown)")
        #expect(unknown.first?.contains("no rule of this domain is named \"her\"; did you mean here?") == true, "\(unknown)")
        let shadow = try Self.warnings(
            "{ key: a, limit: 1, per: 1s, name: real }", "{ key: b, limit: 2, per: 1s, shadow: true, replaces: [real] }")
        #expect(shadow.count == 1)
        #expect(shadow.first?.contains("a shadow") == true, "\(shadow)")
        #expect(
            try Self.warnings(
                "{ key: a, limit: 1, per: 1s, name: real }", "{ key: b, limit: 2, per: 1s, replaces: [real] }") == [])
    }

    @Test(
        "A rule that matches no descriptor, or limits none, causes a warning",
        arguments: [
            (["{ key: a, value: '/api/*', limit: 1, per: 1s }", "{ key: a, value: '/api/v1/*', limit: 2, per: 1s }"], 1),
            (["{ key: a, value: '*', limit: 1, per: 1s }", "{ key: a, limit: 2, per: 1s }"], 1),
            (["{ key: a, value: '/api/v1/*', limit: 1, per: 1s }", "{ key: a, value: '/api/*', limit: 2, per: 1s }"], 0),
            (["{ key: a, value: 'x*y', limit: 1, per: 1s }", "{ key: a, value: 'x*', limit: 2, per: 1s }"], 0),
            (["{ key: a, value: '*', limit: 1, per: 1s }", "{ key: b, value: 'x*', limit: 2, per: 1s }"], 0),
            // An exact value takes precedence over all patterns.
            (["{ key: a, value: '*', limit: 1, per: 1s }", "{ key: a, value: x, limit: 2, per: 1s }"], 0),
            (["{ key: a }"], 1),
            (["{ key: a, descriptors: [{ key: b }] }"], 1),
            // The more specific rule exempts its value from the general rule's limit.
            (["{ key: a, limit: 1, per: 1s }", "{ key: a, value: x }"], 0),
            (["{ key: a, value: 'x*', limit: 1, per: 1s }", "{ key: a, value: xy }"], 0),
            (["{ key: a, unlimited: true }"], 0),
        ] as [([String], Int)])
    func unreachable(rules: [String], count: Int) throws {
        let yaml = "listen: { grpc: 127.0.0.1:7381 }\nrate_limits:\n  edge:\n    descriptors:\n"
        let warnings = try configuration(yaml + rules.map { "      - \($0)\n" }.joined()).warnings
        #expect(warnings.count == count, "\(warnings)")
    }

    @Test("Domains without a gRPC listener cause a warning")
    func withoutListener() throws {
        let yaml = "rate_limits: { edge: { descriptors: [{ key: a, limit: 1, per: 1s }] } }"
        let warnings = try configuration(yaml).warnings
        #expect(warnings.count == 1)
        #expect(warnings.first?.contains("listen.grpc") == true, "\(warnings)")
    }

    // MARK: Files for other software

    @Test("A file in Envoy Gateway's format is accepted")
    func envoyGateway() throws {
        let settings = try Self.imported(
            """
            name: first-listener
            domain: first-listener
            descriptors:
              - key: first-route
                value: first-route
                rate_limit: null
                descriptors:
                  - key: rule-0-match-0
                    value: rule-0-match-0
                    detailed_metric: false
                    descriptors: []
                    rate_limit: { name: "", replaces: [], requests_per_unit: 5, unit: SECOND, unlimited: false }
                    shadow_mode: false
                    value_to_metric: false
              - key: exempt
                value: exempt
                rate_limit: { name: "", requests_per_unit: 0, unit: UNKNOWN, unlimited: true }
            """)
        let domain = try #require(settings.definitions.first)
        let index = DescriptorIndex(domain.rules)
        #expect(domain.name == "first-listener")
        #expect(index.rules.map(\.path) == ["first-route=first-route,rule-0-match-0=rule-0-match-0", "exempt=exempt"])
        #expect(index.rules.map(\.rule.name) == [nil, nil] && index.rules.map(\.rule.limit)[1] == .unlimited)
    }

    @Test("Names with spaces and colons, and domains with colons, are accepted as in the reference")
    func namesMayContainSpacesAndColons() throws {
        let settings = try Self.imported(
            """
            domain: edge:1
            descriptors:
              - { key: a, rate_limit: { unit: day, requests_per_unit: 5, name: "per day, all: users" } }
              - { key: b, rate_limit: { unit: day, requests_per_unit: 9, replaces: [{ name: "per day, all: users" }] } }
              - { key: c, value: 7, metadata: {}, rate_limit: { unit: hour, requests_per_unit: 9 } }
            """)
        let domain = try #require(settings.definitions.first)
        #expect(domain.name == "edge:1")
        #expect(domain.rules[0].name == "per day, all: users" && domain.rules[1].replaces == ["per day, all: users"])
    }

    @Test("A setting that the reference ignores is ignored with a warning")
    func settingThatReferenceIgnoresIsIgnoredWithWarning() throws {
        let settings = try Self.imported(
            "domain: x\ndescriptors:\n  - { key: a, rate_limit: { unit: day, requests_per_unit: 5, shadow_mode: true } }\n")
        #expect(settings.definitions.first?.rules.first?.isShadow == false)
        let error = #expect(throws: InvalidFile.self) { _ = try Self.imported("domain: x\nkind: y\ndescriptors: []\n") }
        #expect(error?.text.contains("kind: unknown key") == true, "\(error?.text ?? "")")
    }

    @Test("A byte order mark is not part of the text")
    func byteOrderMarkIsIgnored() throws {
        #expect(try configuration("\u{FEFF}fleet_size: 3").fleetSize == 3)
        #expect(try Self.imported("\u{FEFF}domain: x\ndescriptors: []\n").definitions.first?.name == "x")
    }

    @Test("A limit of 0 reports its window, and a reset time that discourages retries")
    func blockedWindow() throws {
        let settings = try Self.imported(
            "domain: x\ndescriptors:\n  - { key: a, rate_limit: { unit: hour, requests_per_unit: 0 } }\n  - { key: b, rate_limit: { unit: second, requests_per_unit: 0 } }\n"
        )
        var limiter = DomainLimiter(domain: try #require(settings.definitions.first))
        for (key, window) in [("a", 3600), ("b", 1)] {
            let descriptor = RequestedDescriptor(entries: [DescriptorEntry(key: key, value: "x")])
            guard case .decided(let decision) = limiter.admit([descriptor], id: 1, now: Instant(nanoseconds: 0)) else {
                return #expect(Bool(false), "the decision needs Redis")
            }
            #expect(decision.statuses[0].bound == .limited(limit: 0, window: .seconds(window)))
            #expect(decision.statuses[0].resetAfterMilliseconds >= 86_400_000)
        }
    }
}
