package import InterlockCore
internal import RedisClient

/// The effective configuration as YAML: every setting with its value, whether configured or a default, without secrets.
///
/// The output is a valid configuration with the same meaning, except for the secrets.
package struct EffectiveConfiguration {
    /// The YAML text, with the keys in the order of the documentation.
    package let yaml: String
    package let digest: ConfigurationDigest

    /// The placeholder for a secret.
    static let hidden = "***"

    /// Renders a configuration.
    /// - Throws: an error if the YAML cannot be written, which does not happen with a valid configuration.
    package init(_ configuration: SidecarConfiguration) throws {
        yaml = try YAMLWriter.text(of: Self.tree(configuration))
        let domains = configuration.domains.definitions.map { ($0.name, $0.digest) }
        digest = ConfigurationDigest(configuration.services, domains: Dictionary(domains, uniquingKeysWith: { $1 }))
    }

    private static func tree(_ configuration: SidecarConfiguration) -> YAMLNode {
        .entries([
            ("redis", redis(configuration.redis)),
            ("listen", listen(configuration.listen)),
            (
                "log",
                .entries([
                    ("level", .plain(configuration.log.level.rawValue)), ("format", .plain(configuration.log.format.rawValue)),
                ])
            ),
            ("tracing", configuration.tracing.map(tracing)),
            ("auth", .entries([("keys", .items(zip(1..., configuration.keys).map(key)))])),
            ("locks", locks(configuration.locks)),
            ("fleet_size", .plain(configuration.fleetSize)),
            ("services", .entries(configuration.services.map { ($0.name, service($0)) }, keysAreText: true)),
            ("rls", .entries([("timeout", .duration(configuration.domains.timeout))])),
            ("rate_limits", .entries(configuration.domains.definitions.map { ($0.name, domain($0)) }, keysAreText: true)),
        ])
    }

    private static func tracing(_ settings: TracingSettings) -> YAMLNode {
        .entries([
            ("endpoint", .text(settings.endpoint)), ("ca", .text(settings.certificateAuthority)),
            (
                "headers",
                settings.headers.isEmpty
                    ? nil : .items(settings.headers.map { .entries([("name", .text($0.name)), ("value", .text(hidden))]) })
            ), ("sample", .percentage(settings.samplingRate)),
            ("follow_parents", .plain(settings.followsParents)),
        ])
    }

    private static func redis(_ settings: RedisSettings) -> YAMLNode {
        .entries([
            ("url", .text(settings.url.map(masked))), ("embedded", settings.isEmbedded ? .plain(true) : nil),
            ("urls", settings.urls.isEmpty ? nil : .items(settings.urls.map { .text(masked($0)) })),
            ("password_file", settings.passwordFile.map { .text($0) }),
            ("sentinel_password_file", settings.sentinelPasswordFile.map { .text($0) }), ("tls", settings.tls.map(redisTLS)),
            ("prefix", .text(settings.prefix)), ("timeout", .duration(settings.timeout)),
        ])
    }

    /// Returns the URL with placeholders for its secrets. The result is still a valid URL.
    private static func masked(_ url: String) -> String {
        let redactedURL = "\(RedactedURL(url))"
        guard redactedURL != url, let server = try? RedisConfiguration(url: url, requiresPassword: false) else {
            return redactedURL
        }
        var maskedURL = server.displayName
        if server.password != nil { maskedURL = maskedURL.replacing("://", with: "://:\(hidden)@", maxReplacements: 1) }
        if case .primary(let sentinels) = server.address, sentinels.password != nil {
            maskedURL += "?sentinel_password=\(hidden)"
        }
        return maskedURL
    }

    private static func redisTLS(_ settings: RedisTLSSettings) -> YAMLNode {
        .entries([
            ("ca", .text(settings.authorities)), ("cert", .text(settings.certificate)), ("key", .text(settings.key)),
            ("server_name", .text(settings.serverName)),
        ])
    }

    private static func listen(_ settings: ListenSettings) -> YAMLNode {
        .entries([
            ("resp", .text("\(settings.resp)")), ("http", .text("\(settings.http)")),
            ("grpc", .text(settings.grpc.map { "\($0)" })), ("unix", .text(settings.unix)),
            ("unix_mode", .plain(settings.unixMode)), ("unix_group", .text(settings.unixGroup)),
            ("hosts", .items(settings.hosts.map { .text($0) })),
            (
                "tls",
                settings.tls.map {
                    .entries([
                        ("certificate", .text($0.certificate)), ("key", .text($0.key)),
                        ("grpc_client_ca", .text($0.grpcClientAuthorities)),
                    ])
                } ?? .null
            ),
            ("allow_plaintext", .plain(settings.allowsPlaintext)), ("max_connections", .plain(settings.maximumConnections)),
        ])
    }

    /// Returns an entry of `auth.keys`. The placeholder for its secret has a number, because two keys with the same
    /// secret would be rejected when the output is read again.
    private static func key(_ number: Int, _ key: APIKey) -> YAMLNode {
        .entries([("name", .text(key.name)), ("key", .text("\(hidden)\(number)")), ("role", .plain(key.role.rawValue))])
    }

    private static func locks(_ settings: LockSettings) -> YAMLNode {
        .entries([
            ("key_prefix", .text(settings.keyPrefix)), ("min_ttl", .duration(settings.minimumTTL)),
            ("max_ttl", .duration(settings.maximumTTL)), ("max_wait", .duration(settings.maximumWait)),
            ("max_hold", .duration(settings.maximumHold)), ("fence_ttl", .duration(settings.fenceLifetime)),
            ("wait_replicas", .plain(settings.waitReplicas)),
        ])
    }

    // MARK: Services

    private static func service(_ service: ServiceDefinition) -> YAMLNode {
        let upstream: [(String, YAMLNode?)] = service.upstream.map(upstream) ?? []
        return .entries(
            upstream + [
                ("limits", .items(service.limits.map(limit))),
                (
                    "on_limit",
                    .entries([
                        ("action", .plain(service.onLimit.action.rawValue)), ("pause", .durations(service.onLimit.pause)),
                        ("patience", .duration(service.onLimit.maximumWait)),
                        ("max_waiting", .plain(service.onLimit.maximumWaiting)),
                    ])
                ),
                ("when_redis_is_down", .plain(service.whenRedisIsDown.rawValue)),
                ("breaker", breaker(service.breaker)), ("permit_ttl", .duration(service.permitLifetime)),
                ("concurrency", .plain(service.concurrency)), ("max_subjects", .plain(service.maximumSubjects)),
                ("probe", service.probe.map(probe)),
            ])
    }

    private static func upstream(_ settings: UpstreamSettings) -> [(String, YAMLNode?)] {
        let fallback: YAMLNode? =
            switch settings.fallback {
            case .lastGood(let age): .entries([("last_good", .duration(age))])
            case .fixed(let status, let body, let mediaType):
                .entries([("status", .plain(status)), ("body", .text(body)), ("type", .text(mediaType))])
            case nil: nil
            }
        return [
            ("url", .text(settings.url)), ("tls", settings.certificateAuthority.map { .entries([("ca", .text($0))]) }),
            ("http2", .plain(settings.speaksHTTP2)),
            (
                "timeouts",
                .entries([
                    ("connect", .duration(settings.connectTimeout)), ("first_byte", .duration(settings.firstByteTimeout)),
                    ("idle", .duration(settings.idleTimeout)), ("total", durationOrNoLimit(settings.totalTimeout)),
                ])
            ),
            (
                "connections",
                .entries([
                    ("idle", .duration(settings.connections.idle)),
                    ("max_age", durationOrNoLimit(settings.connections.maximumAge)),
                ])
            ),
            (
                "retries",
                .entries([
                    ("attempts", .plain(settings.retries.attempts)), ("budget", .percentage(settings.retries.budget)),
                    ("min_per_second", .plain(settings.retries.minimumPerSecond)),
                ])
            ),
            ("fallback", fallback),
        ]
    }

    /// Returns a duration, or the value that means no limit if `duration` is `nil`.
    private static func durationOrNoLimit(_ duration: Duration?) -> YAMLNode {
        duration == nil ? .plain(UpstreamSettings.noLimit) : .duration(duration)
    }

    private static func algorithm(_ algorithm: LimitAlgorithm) -> (name: String, burst: Int64?) {
        if case .gcra(let burst) = algorithm { (algorithm.name.rawValue, burst) } else { (algorithm.name.rawValue, nil) }
    }

    // MARK: Domains

    private static func domain(_ domain: RateLimitDomain) -> YAMLNode {
        .entries([
            ("independent", .plain(domain.isIndependent)), ("count_refused", .plain(domain.countsRefused)),
            ("shadow", .plain(domain.isShadow)), ("when_redis_is_down", .plain(domain.whenRedisIsDown.rawValue)),
            ("max_counters", .plain(domain.maximumCounters)), ("descriptors", .items(domain.rules.map(rule))),
        ])
    }

    private static func rule(_ rule: DescriptorRule) -> YAMLNode {
        var entries: [(String, YAMLNode?)] = [("key", .text(rule.key)), ("value", rule.value.map { .text($0.text) })]
        switch rule.limit {
        case nil: break
        case .unlimited: entries.append(("unlimited", .plain(true)))
        case .blocked(let window): entries += [("limit", .plain(0)), ("per", .duration(window))]
        case .rate(let limit, let isAligned):
            let (name, burst) = algorithm(limit.algorithm)
            entries += [
                ("limit", .plain(limit.limit)), ("per", .duration(limit.window)),
                ("algorithm", .plain(isAligned ? "aligned" : name)), ("burst", burst.map { .plain($0) }),
            ]
        }
        entries += [
            ("name", rule.name.map { .text($0) }),
            ("replaces", rule.replaces.isEmpty ? nil : .items(rule.replaces.map { .text($0) })),
            ("shadow", rule.isShadow ? .plain(true) : nil), ("share", rule.isShared ? .plain(true) : nil),
            ("detailed_metrics", rule.hasDetailedMetrics ? .plain(true) : nil),
            ("descriptors", rule.rules.isEmpty ? nil : .items(rule.rules.map(Self.rule))),
        ]
        return .entries(entries)
    }

    private static func limit(_ limit: LimitDefinition) -> YAMLNode {
        let (algorithm, burst) = algorithm(limit.algorithm)
        return .entries([
            ("name", .text(limit.name)), ("limit", .plain(limit.limit)), ("per", .duration(limit.window)),
            ("algorithm", .plain(algorithm)), ("burst", burst.map { .plain($0) }), ("per_subject", .plain(limit.isPerSubject)),
            ("subject", .plain(limit.requiresSubject ? "required" : "optional")), ("shadow", .plain(limit.isShadow)),
        ])
    }

    private static func breaker(_ settings: BreakerSettings) -> YAMLNode {
        let window: (String, YAMLNode?) =
            switch settings.window {
            case .time(let length): ("window", .duration(length))
            case .calls(let count): ("window_calls", .plain(count))
            }
        return .entries([
            ("failure_rate", .percentage(settings.failureRate)), ("slow_call", .duration(settings.slowCall)),
            ("slow_rate", .percentage(settings.slowRate)), window, ("minimum_calls", .plain(settings.minimumCalls)),
            ("consecutive_failures", .plain(settings.consecutiveFailures)), ("reporters", .plain(settings.reporters)),
            ("open_for", .durations(settings.openFor)), ("half_open_permits", .plain(settings.halfOpenPermits)),
            ("failures", .statuses(settings.failureStatuses)), ("ignore", .statuses(settings.ignoredStatuses)),
            ("honour_retry_after", .plain(settings.honorsRetryAfter)), ("metrics_only", .plain(settings.isMetricsOnly)),
        ])
    }

    private static func probe(_ settings: ProbeSettings) -> YAMLNode {
        let target: (String, YAMLNode?) =
            switch settings.target {
            case .http(let address): (address.hasPrefix("/") ? "path" : "url", .text(address))
            case .tcp(let host, let port): ("tcp", .text("\(SocketEndpoint(host: host, port: port))"))
            }
        let isHTTP = if case .http = settings.target { true } else { false }
        return .entries([
            target, ("every", .duration(settings.interval)), ("timeout", .duration(settings.timeout)),
            ("expect", isHTTP ? expectation(settings.expectation) : nil), ("unhealthy_after", .plain(settings.unhealthyAfter)),
            ("healthy_after", .plain(settings.healthyAfter)), ("trial", .plain(settings.isFollowedByTrial)),
            ("from", .plain(settings.origin.rawValue)),
        ])
    }

    private static func expectation(_ expectation: ProbeExpectation) -> YAMLNode {
        var entries: [(String, YAMLNode?)] = [("status", .statuses(expectation.statuses))]
        if !expectation.headers.isEmpty {
            entries.append(("headers", .entries(expectation.headers.map { ($0.name, .text($0.value)) }, keysAreText: true)))
        }
        var members: [(String, YAMLNode?)] = []
        for part in expectation.body {
            switch part {
            case .contains(let text): entries.append(("body", .text(text)))
            case .json(let path, let value): members.append((path, .text(value)))
            }
        }
        if !members.isEmpty { entries.append(("json", .entries(members, keysAreText: true))) }
        return .entries(entries)
    }
}

extension YAMLNode {
    /// Returns a mapping in this order, without the keys whose value is `nil`.
    /// - Parameter keysAreText: whether the keys are names that users choose, which may need quotes.
    fileprivate static func entries(_ entries: [(String, YAMLNode?)], keysAreText: Bool = false) -> YAMLNode {
        YAMLNode(
            .mapping(
                entries.compactMap { key, value in
                    value.map { YAMLNode.Entry(key: keysAreText ? .text(key) : .plain(key), value: $0) }
                }))
    }

    fileprivate static func items(_ items: [YAMLNode]) -> YAMLNode {
        YAMLNode(.sequence(items))
    }

    /// Returns a number, a flag, or a word that needs no quotes; `null` for `nil`.
    fileprivate static func plain(_ value: (some CustomStringConvertible)?) -> YAMLNode {
        YAMLNode(.scalar(value.map { "\($0)" } ?? "null", isPlain: true))
    }

    /// Returns a text in quotes; `null` for `nil`.
    fileprivate static func text(_ text: String?) -> YAMLNode {
        text.map { YAMLNode(.scalar($0, isPlain: false)) } ?? .null
    }

    fileprivate static var null: YAMLNode { YAMLNode(.scalar("null", isPlain: true)) }

    fileprivate static func duration(_ duration: Duration?) -> YAMLNode {
        duration.map { .plain(DurationText.shortest($0)) } ?? .null
    }

    fileprivate static func durations(_ range: ClosedRange<Duration>) -> YAMLNode {
        .plain("\(DurationText.shortest(range.lowerBound))..\(DurationText.shortest(range.upperBound))")
    }

    /// Converts a fraction to a percentage. The rounding undoes the inexact division by 100 when it was parsed.
    fileprivate static func percentage(_ fraction: Double) -> YAMLNode {
        let percent = (fraction * 100 * 1e9).rounded() / 1e9
        return .plain((percent == percent.rounded() ? "\(Int64(percent))" : "\(percent)") + "%")
    }

    fileprivate static func statuses(_ statuses: StatusSet) -> YAMLNode {
        .items(
            statuses.ranges.map { range in
                .plain(range.count == 1 ? "\(range.lowerBound)" : "\(range.lowerBound)..\(range.upperBound)")
            })
    }
}
