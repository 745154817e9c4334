package import InterlockCore
internal import RedisClient

/// The configuration of a sidecar: its Redis, its listeners, the API keys, and the services it guards.
///
/// Every property has the default that applies to an empty file. `load(file:environment:flags:)` reads a file.
package struct SidecarConfiguration: Sendable, Equatable {
    /// `redis`: the Redis that the fleet shares.
    package var redis = RedisSettings()
    /// `listen`: the listeners.
    package var listen = ListenSettings()
    /// `log`: the level and format of messages on standard error.
    package var log = LogSettings()
    /// `tracing`: the sampling and export of traces; `nil` to trace no calls.
    package var tracing: TracingSettings?
    /// `auth.keys`: the API keys. Empty by default, in which case every client of a loopback listener or the Unix
    /// socket is an admin.
    package var keys: [APIKey] = []
    /// `locks`: the limits that apply to every lock.
    package var locks = LockSettings(minimumTTL: LockSettings.defaultMinimumTTL)
    /// `fleet_size`: the minimum number of sidecars to assume while Redis is unreachable; 1 by default.
    package var fleetSize = 1
    /// `services`: the services in the order of the file, with unique names; none by default.
    package var services: [ServiceDefinition] = []
    /// `rate_limits` and `rls`: the domains of Envoy's rate limit service.
    package var domains = DomainSettings()
    /// The data directory of the embedded Redis, set only by a flag or the environment; `nil` for
    /// `$XDG_STATE_HOME/interlock`.
    package var dataDirectory: String?
    /// The warnings about settings that are probably mistakes, one sentence each.
    package var warnings: [String] = []

    /// Creates a configuration with all defaults.
    package init() {}
}

extension SidecarConfiguration {
    /// Rejects listeners that are reachable from other hosts without API keys, or that would carry keys unencrypted.
    ///
    /// Runs after the overrides are applied, because a flag may open a listener that the file lacks.
    package func rejectUnguardedListeners(_ findings: ConfigurationFindings) {
        var listeners = [(listen.resp, ListenSettings.respPath), (listen.http, ListenSettings.httpPath)]
        if let grpc = listen.grpc { listeners.append((grpc, ListenSettings.grpcPath)) }
        for (endpoint, path) in listeners where !endpoint.isLoopback {
            rejectUnlessGuarded(endpoint, path, findings)
        }
        if listen.resp == listen.http, listen.resp.port != 0 {
            findings.reject(
                at: findings.locations[ListenSettings.httpPath] ?? findings.locations[ListenSettings.respPath]
                    ?? findings.wholeFile,
                path: ListenSettings.httpPath,
                "expected a different address from \(ListenSettings.respPath), got \(listen.http) for both"
            )
        }
    }

    /// Rejects a listener that other hosts can reach unless it requires a key and does not carry keys unencrypted.
    private func rejectUnlessGuarded(_ endpoint: SocketEndpoint, _ path: String, _ findings: ConfigurationFindings) {
        let location = findings.locations[path] ?? findings.wholeFile
        let hasRejectedKeys = findings.hasProblem(under: "auth")
        if keys.isEmpty {
            guard !hasRejectedKeys else { return }
            findings.reject(
                at: location,
                path: path,
                "\(endpoint) can be reached from other hosts and needs auth.keys; add a key, or listen on 127.0.0.1"
            )
        } else if listen.tls == nil, !listen.allowsPlaintext, !findings.hasProblem(under: "listen.tls") {
            findings.reject(
                at: location,
                path: path,
                """
                \(endpoint) can be reached from other hosts and would carry keys unencrypted; set listen.tls, \
                or set listen.allow_plaintext: true if the network is private to a pod or a compose project
                """
            )
        }
    }
}

extension SidecarConfiguration {
    /// The prefix of the variables that belong to Interlock.
    private static let variablePrefix = "INTERLOCK_"
    /// The variables that other parts of the program read or set.
    private static let otherVariables: Set<String> = [
        "INTERLOCK_ALLOW_PLAINTEXT", "INTERLOCK_API_KEY", "INTERLOCK_CA", "INTERLOCK_EXIT_CODES", "INTERLOCK_FENCE",
        "INTERLOCK_LOCK", "INTERLOCK_SIDECAR", "INTERLOCK_TOKEN",
    ]

    /// Warns about settings that are probably mistakes, and rejects Redis settings that have no effect.
    /// - Parameter named: the environment variables that the file refers to.
    func warnAboutMistakes(
        in environment: [String: String], named namedVariables: Set<String>, _ findings: ConfigurationFindings
    ) {
        let overrideVariables = Overrides.Setting.allCases.map(\.variable)
        let knownVariables = Self.otherVariables.union(namedVariables).union(overrideVariables)
        for variable in environment.keys.sorted()
        where variable.hasPrefix(Self.variablePrefix) && !knownVariables.contains(variable) {
            let alternatives = overrideVariables.sorted().joined(separator: ", ")
            findings.warn("\(variable) is not a setting of interlock serve, which reads \(alternatives)")
        }
        if listen.unix == nil, listen.unixMode != nil || listen.unixGroup != nil {
            findings.warn("listen.unix_mode and listen.unix_group have no effect without listen.unix")
        }
        for service in services where service.onLimit.maximumWait > locks.maximumWait {
            findings.warn(
                "services.\(service.name).on_limit.patience: no call waits for \(DurationText.shortest(service.onLimit.maximumWait)), because "
                    + "locks.max_wait ends every wait after \(DurationText.shortest(locks.maximumWait))")
        }
        if listen.grpc == nil, !domains.definitions.isEmpty {
            findings.warn("rate_limits and rls.import have no effect without the gRPC API; set listen.grpc")
        }
        if findings.readsSecrets { for warning in listen.certificateWarnings() { findings.warn(warning) } }
        let isURLRead = redis.url != RedisSettings.unreadURL
        let urls = [redis.url].compactMap(\.self) + redis.urls
        if isURLRead, redis.tls != nil, !urls.contains(where: { $0.lowercased().hasPrefix("rediss") }) {
            findings.reject(
                at: findings.wholeFile, path: "redis.tls",
                "requires a URL that begins with rediss://, rediss+sentinel:// or rediss+cluster://")
        }
        if isURLRead, redis.sentinelPasswordFile != nil, redis.url?.lowercased().contains("+sentinel://") != true {
            findings.reject(at: findings.wholeFile, path: "redis.sentinel_password_file", "requires Sentinels")
        }
        if isURLRead, let url = redis.url, case .host(_, let port)? = Self.address(of: url),
            port == SentinelSettings.standardPort
        {
            findings.warn(
                "redis.url uses port \(port), the default port of Sentinels; for Sentinels, set redis.sentinels and "
                    + "redis.primary instead")
        }
        for key in keys where findings.readsSecrets && key.secret.count < APIKey.minimumSafeLength {
            findings.warn(
                "auth.keys: the key \"\(key.name)\" has \(key.secret.count) character\(key.secret.count == 1 ? "" : "s") and can be guessed; "
                    + "use at least \(APIKey.minimumSafeLength), for example from openssl rand -hex 16")
        }
    }

    private static func address(of url: String) -> RedisConfiguration.Address? {
        try? RedisConfiguration(url: url, requiresPassword: false).address
    }

    /// The warning about a configuration that neither names a Redis nor sets `redis.embedded`; `nil` for any other
    /// configuration. It does not apply to a sidecar without a file, because that sidecar is being tried out.
    package var embeddedRedisWarning: String? {
        guard redis.isEmbedded, !redis.isExplicitlyEmbedded else { return nil }
        return
            "no Redis is configured, so locks and limits apply to this host only; set redis.url to the Redis that the fleet shares, or "
            + "set redis.embedded: true (required from the next version on)"
    }
}
