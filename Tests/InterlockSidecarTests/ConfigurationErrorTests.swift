import InterlockCore
import SidecarSettings
import Testing

@Suite("Configuration: errors")
struct ConfigurationErrorTests {
    @Test("The minimum TTL defaults to 100 ms, or to the maximum TTL if that is shorter")
    func minimumTTL() throws {
        let defaults = try configuration("services: {}")
        #expect(defaults.locks.minimumTTL == .milliseconds(100))
        let loaded = try configuration("locks: { min_ttl: 5ms }")
        #expect(loaded.locks.minimumTTL == .milliseconds(5))
        let shortMaximum = try configuration("locks: { max_ttl: 50ms }")
        #expect(shortMaximum.locks.minimumTTL == .milliseconds(50))
        #expect(
            configurationErrors(of: "locks: { min_ttl: 2s, max_ttl: 1s }") == [
                "file.yaml:1: locks.min_ttl: expected at most locks.max_ttl (1s), got 2s"
            ])
    }

    @Test("All errors are reported together, in line order")
    func allErrors() {
        let yaml = """
            fleet_size: 0
            redis:
              timeout: 500
              tiemout: 1s
            services:
              catalog:
                limits:
                  - limit: ten
                    per: 1s
                  - { limit: 5, per: 2 seconds }
                breaker: { failure_rate: 0.5 }
            """
        #expect(
            configurationErrors(of: yaml) == [
                "file.yaml:1: fleet_size: expected a whole number of 1 or more, got 0",
                "file.yaml:3: redis.timeout: expected a duration such as 500ms, 2s, 1m, 1h or 1d, got 500; did you mean 500s or 500ms?",
                "file.yaml:4: redis.tiemout: unknown key; did you mean timeout?",
                "file.yaml:8: services.catalog.limits[0].limit: expected a whole number of 1 or more, got \"ten\"",
                "file.yaml:10: services.catalog.limits[1].per: expected a duration such as 500ms, 2s, 1m, 1h or 1d, got 2 seconds; did you mean 2s?",
                "file.yaml:11: services.catalog.breaker.failure_rate: expected a percentage such as 50%, got 0.5; did you mean 50%?",
            ]
        )
    }

    @Test(
        "Invalid permissions of the Unix socket and an unknown group are rejected",
        arguments: [
            ("unix_mode: 0777", "expected permissions such as 0600, 0660 or 0666"),
            ("unix_mode: 660x", "expected permissions such as 0600, 0660 or 0666"),
            ("unix_mode: 0060", "expected permissions such as 0600, 0660 or 0666"),
            ("unix_group: no such group", "expected the name of an existing group, or a number"),
        ])
    func unixSocket(yaml: String, error: String) throws {
        let firstError = try #require(configurationErrors(of: "listen: { unix: /run/a.sock, \(yaml) }").first)
        #expect(firstError.contains("listen.\(yaml.prefix { $0 != ":" }): \(error)"), "\(firstError)")
    }

    @Test(
        "An invalid value of a service is rejected with its location",
        arguments: [
            ("limits: [ { limit: 0, per: 1s } ]", "limits[0].limit: expected a whole number of 1 or more, got 0"),
            ("limits: [ { limit: -3, per: 1s } ]", "limits[0].limit: expected a whole number of 1 or more, got -3"),
            ("limits: [ { limit: \"3\", per: 1s } ]", "limits[0].limit: expected a whole number of 1 or more, got \"3\""),
            (
                "limits: [ { limit: 1000000000000001, per: 1s } ]",
                "limits[0].limit: expected a whole number of 1000000000000000 or less, got 1000000000000001"
            ),
            ("limits: [ { limit: 1, per: 0s } ]", "limits[0].per: expected a duration of 1ms or more, got 0s"),
            ("limits: [ { limit: 1, per: 367d } ]", "limits[0].per: expected a duration of 366d or less, got 367d"),
            ("limits: [ { limit: 1, per: 0.5ms } ]", "limits[0].per: expected a duration of whole milliseconds, got 0.5ms"),
            ("limits: [ { per: 1s } ]", "limits[0]: expected the key limit: a whole number of 1 or more"),
            ("limits: [ 10 ]", "limits[0]: expected a mapping (key: value), got 10"),
            ("limits: 10", "limits: expected a list, got 10"),
            ("limits: [ { limit: 1, per: 1s, name: 'a:b' } ]", "limits[0].name: expected a name without \":\", got \"a:b\""),
            ("limits: [ { limit: 1, per: 1s, name: 'a~b' } ]", "limits[0].name: expected a name without \"~\", got \"a~b\""),
            (
                "limits: [ { limit: 1, per: 1s, algorithm: leaky } ]",
                "limits[0].algorithm: expected fixed, sliding or gcra, got \"leaky\""
            ),
            ("limits: [ { limit: 1, per: 1s, burst: 3 } ]", "limits[0].burst: requires algorithm: gcra"),
            (
                "limits: [ { limit: 1, per: 1s, algorithm: gcra, burst: -1 } ]",
                "limits[0].burst: expected a whole number of 0 or more, got -1"
            ),
            (
                "limits: [ { limit: 10001, per: 1s, algorithm: sliding } ]",
                "limits[0]: expected a limit of 10000 or less with the algorithm sliding, which remembers each grant for its "
                    + "window, got 10001; use fixed or gcra"
            ),
            (
                "limits: [ { limit: 1000000001, per: 1s, algorithm: gcra } ]",
                "limits[0]: expected a limit of 1000000000 or less with the algorithm gcra, got 1000000001"
            ),
            (
                "limits: [ { limit: 1, per: 366d, algorithm: gcra, burst: 100 } ]",
                "limits[0]: expected a burst that refills within a hundred years, got 100"
            ),
            (
                "limits: [ { limit: 1, per: 1s, shadow: 1 } ]",
                "limits[0].shadow: expected true or false, got 1; did you mean true?"
            ),
            (
                "limits: [ { limit: 1, per: 1s }, { limit: 1, per: 1s, algorithm: sliding } ]",
                "limits[1]: duplicate limit name \"1s\"; each limit of a service needs its own name"
            ),
            (
                "limits: [ { limit: 1, per: 1s }, { limit: 2, per: 1000ms } ]",
                "limits[1]: duplicate limit name \"1s\"; each limit of a service needs its own name"
            ),
            (
                "limits: [ { limit: 1, per: 1s, subject: required } ]",
                "limits[0].subject: required needs per_subject: true; add it to the limit"
            ),
            (
                "limits: [ { limit: 1, per: 1s, per_subject: true, shadow: true, subject: required } ]",
                "limits[0].subject: required rejects calls, which a shadow limit never does; remove subject or shadow"
            ),
            (
                "limits: [ { limit: 1, per: 1s, per_subject: true, subject: must } ]",
                "limits[0].subject: expected optional or required, got \"must\""
            ),
            ("on_limit: { action: block }", "on_limit.action: expected wait, deny or trip, got \"block\""),
            (
                "on_limit: { pause: 3s..2s }",
                "on_limit.pause: expected a range that starts with the shorter duration, got 3s..2s"
            ),
            ("on_limit: { max_waiting: 100001 }", "on_limit.max_waiting: expected a whole number of 100000 or less, got 100001"),
            ("when_redis_is_down: no", "when_redis_is_down: expected local, allow or deny, got \"no\""),
            ("breaker: { failure_rate: 101% }", "breaker.failure_rate: expected a percentage from 1% to 100%, got 101%"),
            ("breaker: { slow_rate: 0% }", "breaker.slow_rate: expected a percentage from 1% to 100%, got 0%"),
            ("breaker: { minimum_calls: 0 }", "breaker.minimum_calls: expected a whole number of 1 or more, got 0"),
            ("breaker: { half_open_permits: 0 }", "breaker.half_open_permits: expected a whole number of 1 or more, got 0"),
            ("breaker: { open_for: 0s }", "breaker.open_for: expected a duration of 1ms or more, got 0s"),
            (
                "breaker: { open_for: 1s..0s }",
                "breaker.open_for: expected a range that starts with the shorter duration, got 1s..0s"
            ),
            ("breaker: { reporters: 0 }", "breaker.reporters: expected a whole number of 1 or more, got 0"),
            ("breaker: { reporters: 1001 }", "breaker.reporters: expected a whole number of 1000 or less, got 1001"),
            (
                "breaker: { window: 10s, window_calls: 100 }",
                "breaker.window_calls: conflicts with window; remove one of them"
            ),
            (
                "breaker: { window_calls: 100, minimum_calls: 101 }",
                "breaker.minimum_calls: expected at most window_calls (100), got 101"
            ),
            (
                "breaker: { failures: [500..599, 600] }",
                "breaker.failures[1]: expected a status or a range such as 200..399, within 100..599, got 600"
            ),
            ("breaker: { metrics_only: maybe }", "breaker.metrics_only: expected true or false, got \"maybe\""),
            ("concurrency: 0", "concurrency: expected a whole number of 1 or more, got 0"),
            (
                "url: \"ftp://example.com\"",
                "url: expected a URL that begins with http:// or https:// and names a host, got \"ftp://example.com\""
            ),
            (
                "url: \"https:///x\"",
                "url: expected a URL that begins with http:// or https:// and names a host, got \"https:///x\""
            ),
        ]
    )
    func invalidValueOfServiceIsRejectedWithLocation(yaml: String, error: String) {
        #expect(configurationErrors(of: "services:\n  a:\n    \(yaml)") == ["file.yaml:3: services.a.\(error)"])
    }

    @Test(
        "An invalid server setting is rejected with its location",
        arguments: [
            (
                "redis: { url: \"http://x\" }",
                "redis.url: expected a URL that begins with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster:// (others are not supported), got \"http://x\""
            ),
            (
                "redis: { nodes: [] }",
                "redis.nodes: unknown key; use redis.cluster"
            ),
            (
                "redis: { prefix: \"\" }",
                "redis.prefix: expected 1-64 bytes without control characters, spaces or braces, got \"\""
            ),
            ("redis: { timeout: 5ms }", "redis.timeout: expected a duration of 10ms or more, got 5ms"),
            ("redis: { timeout: 2m }", "redis.timeout: expected a duration of 1m or less, got 2m"),
            (
                "locks: { key_prefix: \"a{b}\" }",
                "locks.key_prefix: expected 0-64 bytes without control characters, spaces or braces, got \"a{b}\""
            ),
            (
                "locks: { key_prefix: [] }",
                "locks.key_prefix: expected a string, got a list"
            ),
            ("locks: { max_hold: 5ms }", "locks.max_hold: expected a duration of 10ms or more, got 5ms"),
            ("locks: { wait_replicas: -1 }", "locks.wait_replicas: expected a whole number of 0 or more, got -1"),
            ("locks: { wait_replicas: 101 }", "locks.wait_replicas: expected a whole number of 100 or less, got 101"),
            (
                "listen: { resp: \"127.0.0.1\" }",
                "listen.resp: expected HOST:PORT such as 127.0.0.1:7379 or [::1]:7379, port 0-65535, got \"127.0.0.1\""
            ),
            (
                "listen: { resp: null }",
                "listen.resp: expected HOST:PORT such as 127.0.0.1:7379 or [::1]:7379, port 0-65535, got nothing"
            ),
            (
                "listen: { http: \"127.0.0.1:7379\" }",
                "listen.http: expected a different address from listen.resp, got 127.0.0.1:7379 for both"
            ),
            (
                "listen: { tls: { certificate: /nowhere.pem } }",
                "listen.tls.certificate: expected the path of a readable PEM file, got \"/nowhere.pem\""
            ),
            (
                "log: { level: warn }",
                "log.level: expected trace, debug, info, notice, warning, error or critical, got \"warn\"; did you mean warning?"
            ),
            (
                "listen: { allow_plaintext: yes }",
                "listen.allow_plaintext: expected true or false, got \"yes\"; did you mean true?"
            ),
            ("services: { \"a:b\": {} }", "services.a:b: expected a name without \":\", got \"a:b\""),
            ("servises: {}", "servises: unknown key; did you mean services?"),
            (
                "<<: {}",
                "<<: merge keys are not supported; repeat the settings, or use an alias for the whole value"
            ),
        ]
    )
    func invalidServerSettingIsRejectedWithLocation(yaml: String, error: String) {
        #expect(configurationErrors(of: yaml).first == "file.yaml:1: \(error)")
    }

    @Test(
        "The error for a setting under another product's name suggests the right name",
        arguments: [
            ("rate: 10", "rate: unknown key; did you mean limits?"),
            ("rate-limit: 10", "rate-limit: unknown key; did you mean limits?"),
            ("circuit_breaker: {}", "circuit_breaker: unknown key; did you mean breaker?"),
            ("retry: {}", "retry: unknown key; did you mean retries?"),
            ("bulkhead: 5", "bulkhead: unknown key; did you mean concurrency?"),
            ("healthcheck: /", "healthcheck: unknown key; did you mean probe?"),
            ("limits: [ { limit: 1, per: 1s, dry_run: true } ]", "limits[0].dry_run: unknown key; did you mean shadow?"),
            ("breaker: { threshold: 50% }", "breaker.threshold: unknown key; did you mean failure_rate?"),
            ("breaker: { reset_timeout: 5s }", "breaker.reset_timeout: unknown key; did you mean open_for?"),
        ])
    func synonyms(service: String, error: String) {
        let all = configurationErrors(of: "services: { catalog: { \(service) } }")
        #expect(all == ["file.yaml:1: services.catalog.\(error)"])
    }

    @Test(
        "The error for a spelling that other software uses suggests the right value",
        arguments: [
            ("breaker: { failure_rate: 50 }", "50%"), ("breaker: { failure_rate: 0.125 }", "12.5%"),
            ("breaker: { failures: 5xx }", "500..599"), ("breaker: { open_for: 30s-60s }", "30s..60s"),
            ("limits: [ { limit: 1, per: minute } ]", "1m"), ("limits: [ { limit: 1, per: 90 sec } ]", "90s"),
            ("limits: [ { limit: 1, per: 1s, algorithm: token_bucket } ]", "gcra"),
            ("limits: [ { limit: 1, per: 1s, algorithm: slid } ]", "sliding"),
            ("when_redis_is_down: fail_open", "allow"), ("when_redis_is_down: Deny", "deny"),
            ("limits: [ { limit: 1, per: 1s, shadow: Off } ]", "false"),
        ])
    func suggestedValues(service: String, suggestion: String) {
        let all = configurationErrors(of: "services: { catalog: { \(service) } }")
        #expect(all.count == 1 && all.first?.hasSuffix("; did you mean \(suggestion)?") ?? false, "\(all)")
    }

    @Test(
        "The error for an ambiguous or meaningless value suggests nothing",
        arguments: [
            "breaker: { failure_rate: 1 }", "breaker: { failure_rate: 500 }", "breaker: { failures: 9xx }",
            "limits: [ { limit: 1, per: soon } ]", "limits: [ { limit: 1, per: 1s-2s } ]",
            "limits: [ { limit: 1, per: 400 days } ]", "breaker: { open_for: 5s-400d }",
        ])
    func withoutSuggestion(service: String) {
        let all = configurationErrors(of: "services: { catalog: { \(service) } }")
        #expect(all.count == 1 && all.first?.contains("did you mean") == false, "\(all)")
    }

    @Test("Top-level keys that begin with x- are ignored, so they can hold anchors")
    func extensionKeysAreIgnored() throws {
        let settings = try configuration("x-limits: &l [ { limit: 1, per: 1s } ]\nservices: { catalog: { limits: *l } }")
        #expect(settings.services.first?.limits.map(\.limit) == [1])
        #expect(settings.warnings.isEmpty)
        #expect(configurationErrors(of: "services: { catalog: { x-note: a } }").count == 1)
    }

    @Test("The error for an unknown limit setting suggests each name only once")
    func offered() {
        let limit = configurationErrors(of: "services: { catalog: { limits: [ { rate: 10, per: 1s } ] } }")
        #expect(limit.contains("file.yaml:1: services.catalog.limits[0].rate: unknown key; did you mean limit?"))
        let service = configurationErrors(of: "services: { catalog: { nonsense: 1 } }").first ?? ""
        let offered = service.split(separator: "expected ").last.map { $0.replacing(" or ", with: ", ").split(separator: ", ") }
        let keys = offered ?? []
        #expect(keys.contains("url"))
        #expect(Set(keys).count == keys.count, "\(keys)")
    }

    @Test(
        "The error for a scalar in place of a mapping shows the line to write",
        arguments: [
            ("on_limit: wait", "on_limit: expected a mapping (key: value), got \"wait\"; write on_limit: { action: wait }"),
            ("probe: /healthz", "probe: expected a mapping (key: value), got \"/healthz\"; write probe: { path: /healthz }"),
            ("breaker: 50%", "breaker: expected a mapping (key: value), got 50%; write breaker: { failure_rate: 50% }"),
            (
                "url: 'http://a', timeouts: 5s",
                "timeouts: expected a mapping (key: value), got 5s; write timeouts: { total: 5s }"
            ),
        ])
    func shorthand(service: String, error: String) {
        #expect(
            configurationErrors(of: "services: { catalog: { \(service) } }").first == "file.yaml:1: services.catalog.\(error)")
    }

    @Test("The error for breaker: true or false explains how to enable or disable a breaker")
    func switchedBreaker() {
        let mapping = "file.yaml:1: services.catalog.breaker: expected a mapping (key: value)"
        #expect(
            configurationErrors(of: "services: { catalog: { breaker: true } }") == [
                "\(mapping), got true; every service has a breaker by default, so remove the key"
            ])
        #expect(
            configurationErrors(of: "services: { catalog: { breaker: false } }") == [
                "\(mapping), got false; to keep the breaker from opening, write breaker: { metrics_only: true }"
            ])
        // For other mappings, no setting is suggested in place of true or false.
        #expect(
            configurationErrors(of: "services: { catalog: { probe: true } }").first
                == "file.yaml:1: services.catalog.probe: expected a mapping (key: value), got \"true\"")
    }

    @Test("The suggested line reveals no password")
    func shorthandWithPassword() {
        let error = configurationErrors(of: "redis: 'redis://:hunter2@127.0.0.1'").first ?? ""
        #expect(error.contains("write redis: { url: "))
        #expect(!error.contains("hunter2"))
    }

    @Test(
        "Invalid YAML is rejected with its line",
        arguments: [
            ("a: [1\nb: 2\n", "file.yaml:2: invalid YAML: "),
            ("redis: {}\n\tlog: {}\n", "file.yaml:2: invalid YAML: found a tab; indent with spaces"),
            ("é: {}\nredis: @a\n", "file.yaml:2: invalid YAML: found a value that begins with @, `, %, | or >; put it in quotes"),
            ("redis: {}\n---\nlog: {}\n", "file.yaml:2: invalid YAML: "),
            ("redis: *nowhere\n", "file.yaml:1: invalid YAML: "),
            ("redis: {}\nlog: \u{1}\n", "file.yaml:2: invalid YAML: "),
            ("redis: {}\nlog: {}\nlog: {}\n", "file.yaml:2: duplicate key: \"log\" (lines 2 and 3); set each key once"),
            ("redis: {}\nlog: {}\n\"log\": {}\n", "file.yaml:2: duplicate key: \"log\" (lines 2 and 3); set each key once"),
            ("- redis", "file.yaml:1: expected a mapping"),
        ]
    )
    func invalidYAMLIsRejectedWithLine(yaml: String, beginning: String) throws {
        let error = try #require(configurationErrors(of: yaml).first)
        #expect(error.hasPrefix(beginning), "\(error)")
    }

    @Test("A file over 1 MiB is rejected")
    func tooLarge() {
        let yaml = "#" + String(repeating: "x", count: 1 << 20)
        #expect(configurationErrors(of: yaml) == ["file.yaml: expected a file of at most 1 MiB"])
    }

    @Test("Aliases cannot turn a small file into unbounded work")
    func aliasesCannotTurnSmallFileIntoUnboundedWork() {
        let items = String(repeating: "*l,", count: 2000)
        let services = (0..<2000).map { "s\($0): { limits: *all }" }.joined(separator: "\n  ")
        let yaml = """
            services:
              first: { limits: [ &l { name: a, limit: 1, per: 1s } ] }
              second: { limits: &all [ \(items) ] }
              \(services)
            """
        #expect(configurationErrors(of: yaml).contains("file.yaml: expected at most 100000 values after expanding aliases"))
    }

    @Test("Aliases cannot turn a small file into gigabytes of text")
    func aliasesOfText() {
        let keys = String(repeating: "*a ,", count: 9000)
        let yaml = "a: &a " + String(repeating: "é", count: 200_000) + "\n? [\(keys)]\n: 1\n"
        #expect(configurationErrors(of: yaml) == ["file.yaml: expected at most 16 MiB of text after expanding aliases"])
    }

    @Test("Only a few of thousands of duplicate keys are named")
    func repeatedKeys() throws {
        let yaml = (0..<3000).map { "k\($0): 1\nk\($0): 1\n" }.joined()
        let error = try #require(configurationErrors(of: yaml).first)
        let shown = "\"k0\" (lines 1 and 2), \"k1\" (lines 3 and 4), \"k2\" (lines 5 and 6)"
        #expect(error.hasPrefix("file.yaml:1: duplicate keys: \(shown) and"), "\(error)")
        #expect(error.hasSuffix("and 2997 more; set each key once"))
        #expect(error.utf8.count < 300)
    }

    @Test("The error for a missing file names it")
    func missingFile() {
        let error = #expect(throws: ConfigurationError.self) {
            try SidecarConfiguration.load(file: "/nowhere/a.yaml", environment: [:])
        }
        #expect(error?.description == "/nowhere/a.yaml: there is no such file")
    }
}
