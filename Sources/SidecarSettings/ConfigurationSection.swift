import InterlockCore

/// A mapping in the file. The keys that readers request become known; `rejectUnknownKeys` rejects all others.
final class ConfigurationSection {
    /// The mapping itself, for reporting mistakes that concern more than one key.
    let mapping: ConfigurationValue
    private let entries: [(key: ConfigurationValue, name: String, value: ConfigurationValue)]
    /// The keys that readers have requested, in the order of their first request.
    private var knownKeys: [String] = []
    /// The unknown keys that need no further error, because they are already rejected or may be ignored.
    private var resolvedKeys: Set<String> = []

    /// Returns `nil` and reports a mistake if `value` is not a mapping. Entries whose key is not a string are
    /// reported and skipped.
    /// - Parameter shorthand: the key to suggest if there is a plain value instead of a mapping.
    init?(_ value: ConfigurationValue, shorthand: String? = nil) {
        mapping = value
        guard !value.isNull else {
            entries = []
            return
        }
        guard case .mapping(let pairs) = value.node.content else {
            value.reject(expected: InvalidConfigurationValue("a mapping (key: value)"), suggesting: shorthand)
            return nil
        }
        entries = pairs.compactMap { entry in
            guard let name = entry.key.text, !name.isEmpty else {
                value.child(entry.key, "").reject("expected a string as key")
                return nil
            }
            let shownName = ConfigurationValue.shortened(name)
            let pathComponent = value.path.isEmpty ? shownName : "." + shownName
            return (value.child(entry.key, pathComponent), name, value.child(entry.value, pathComponent))
        }
    }

    /// Returns the value of `key`, even if it is null, and marks the key as known.
    func value(_ key: String) -> ConfigurationValue? {
        if !knownKeys.contains(key) { knownKeys.append(key) }
        return entries.first { $0.name == key }?.value
    }

    /// Passes the value of `key` to `read` if it is present.
    func read(_ key: String, _ read: (ConfigurationValue) -> Void) {
        if let value = value(key) { read(value) }
    }

    /// Parses the value of `key` into `target`. Leaves `target` unchanged if the key is missing or its value is
    /// invalid.
    func read<Parsed>(_ key: String, into target: inout Parsed, _ parse: (ConfigurationValue) -> Parsed?) {
        if let value = value(key), let parsed = parse(value) { target = parsed }
    }

    /// Parses the value of `key` into `target` like `read(_:into:_:)`, but `null` sets it to `nil`.
    func readOptional<Parsed>(_ key: String, into target: inout Parsed?, _ parse: (ConfigurationValue) -> Parsed?) {
        guard let value = value(key) else { return }
        if value.isNull { target = nil } else if let parsed = parse(value) { target = parsed }
    }

    /// Parses the value of `key`, and reports a mistake if the key is missing.
    /// - Parameter expectation: a description of the value, for the error message.
    func required<Parsed>(_ key: String, _ expectation: String, _ parse: (ConfigurationValue) -> Parsed?) -> Parsed? {
        guard let value = value(key) else {
            mapping.reject("expected the key \(key): \(expectation)")
            return nil
        }
        return parse(value)
    }

    /// Returns all entries in the order of the file, for mappings whose keys are names that users choose.
    func namedEntries() -> [(key: ConfigurationValue, name: String, value: ConfigurationValue)] {
        knownKeys.append(contentsOf: entries.map(\.name))
        return entries
    }

    /// Rejects keys for a specific reason, for example because they conflict with another key or are no longer
    /// supported.
    func reject(_ keys: [String], _ reason: String) {
        for entry in entries where keys.contains(entry.name) {
            resolvedKeys.insert(entry.name)
            entry.key.reject(reason)
        }
    }

    /// Ignores those of the given keys that no reader requested, and warns about them.
    func ignore(_ keys: Set<String>, _ reason: String) {
        for entry in entries
        where keys.contains(entry.name) && !knownKeys.contains(entry.name) && !resolvedKeys.contains(entry.name) {
            resolvedKeys.insert(entry.name)
            mapping.findings.warn("\(mapping.findings.fileName): \(entry.key.path) \(reason)")
        }
    }

    /// Accepts and ignores keys that begin with `x-`, which hold anchors for use elsewhere in the file.
    func ignoreExtensions() {
        resolvedKeys.formUnion(entries.map(\.name).filter { $0.hasPrefix("x-") })
    }

    /// Rejects every key that no reader requested, and suggests a known key if one is similar.
    func rejectUnknownKeys() {
        for entry in entries where !knownKeys.contains(entry.name) && !resolvedKeys.contains(entry.name) {
            if entry.name == "<<" {
                entry.key.reject("merge keys are not supported; repeat the settings, or use an alias for the whole value")
                continue
            }
            let suggestion =
                Self.synonym(of: entry.name, among: knownKeys)
                ?? ConfigurationText.closest(to: entry.name, among: knownKeys)
            let hint =
                suggestion.map { "did you mean \($0)?" } ?? "expected \(ConfigurationText.alternatives(knownKeys))"
            entry.key.reject("unknown key; \(hint)")
        }
    }
}

extension ConfigurationSection {
    /// Returns the known key that this key denotes in another spelling or in other software; `nil` if no key matches.
    private static func synonym(of unknownKey: String, among knownKeys: [String]) -> String? {
        let name = unknownKey.lowercased().replacing("-", with: "_")
        if knownKeys.contains(name) { return name }
        return synonyms.first { knownKeys.contains($0.key) && $0.otherNames.contains(name) }?.key
    }

    /// The names that other software uses for a key. A name may be listed for several keys, because at most one of them
    /// is known in any section.
    private static let synonyms: [(key: String, otherNames: Set<String>)] = [
        // Keys of services.
        ("url", ["base_url", "upstream", "endpoint", "address", "uri", "host", "target"]),
        ("limits", ["limit", "rate", "rates", "rate_limit", "rate_limits", "ratelimit", "throttle", "quota", "quotas"]),
        ("breaker", ["circuit_breaker", "circuitbreaker", "circuit", "breakers"]),
        ("retries", ["retry", "max_retries", "retry_policy"]),
        ("timeouts", ["timeout", "deadline"]),
        ("concurrency", ["bulkhead", "max_concurrency", "max_concurrent", "parallelism", "max_in_flight"]),
        ("probe", ["health", "health_check", "healthcheck", "monitor", "check", "ping"]),
        ("when_redis_is_down", ["fail_open", "on_redis_down", "when_redis_down", "redis_down", "on_error"]),
        ("permit_ttl", ["ttl", "lease", "permit_timeout"]),
        // Keys of a limit.
        ("limit", ["rate", "max", "requests", "calls", "quota", "max_requests", "count", "capacity"]),
        ("per", ["window", "interval", "period", "duration", "every"]),
        ("per_subject", ["per_tenant", "per_user", "per_key", "per_client", "subject", "by", "key"]),
        ("shadow", ["dry_run", "log_only"]),
        ("algorithm", ["type", "strategy", "kind"]),
        // Keys of `on_limit`.
        ("action", ["type", "mode", "policy"]),
        ("patience", ["wait", "max_wait", "timeout"]),
        ("max_waiting", ["queue", "queue_size", "max_queue"]),
        // Keys of the breaker.
        ("failure_rate", ["threshold", "error_rate", "failure_threshold", "failure_rate_threshold", "errors"]),
        ("minimum_calls", ["min_calls", "minimum_number_of_calls", "request_volume", "min_requests"]),
        ("open_for", ["sleep_window", "reset_timeout", "wait_duration", "cooldown", "open_duration", "recovery_timeout"]),
        ("half_open_permits", ["half_open_calls", "half_open_requests", "trials", "half_open_max_calls"]),
        ("slow_call", ["slow_call_duration", "slow_threshold", "latency"]),
        ("consecutive_failures", ["max_failures", "fail_max", "consecutive_errors"]),
        // Keys of retries, timeouts and probes.
        ("attempts", ["max", "count", "max_attempts", "max_retries", "retries", "tries"]),
        ("first_byte", ["read", "response", "header"]),
        ("total", ["overall", "request", "all"]),
        ("every", ["interval", "period"]),
        ("expect", ["expected", "match"]),
        ("unhealthy_after", ["failure_threshold", "fall", "unhealthy_threshold", "failures"]),
        ("healthy_after", ["success_threshold", "rise", "healthy_threshold", "successes"]),
        // Keys of the sidecar.
        ("listen", ["server", "bind", "ports"]),
        ("resp", ["tcp", "port", "redis"]),
        ("unix", ["socket", "unix_socket", "path"]),
        ("log", ["logging", "logs"]),
        ("auth", ["authentication", "security", "acl"]),
        ("keys", ["api_keys", "users", "tokens"]),
        ("locks", ["lock", "leases"]),
        ("services", ["apis", "upstreams", "backends"]),
        ("prefix", ["key_prefix", "namespace"]),
        ("password_file", ["password", "auth"]),
        ("key_file", ["file", "secret_file", "path"]),
        ("key_env", ["env", "secret_env"]),
        ("key", ["secret", "token", "value"]),
        ("max_ttl", ["ttl", "maximum_ttl"]),
    ]
}
