package import InterlockJudge

/// The configuration file of the sidecars that the harness starts.
package struct FleetConfiguration: Sendable {
    package var services: [FleetService]
    /// The number of sidecars in the fleet.
    package var sidecars: Int
    /// The maximum number of client connections per sidecar.
    package var maximumConnections = 15_000

    /// The value of `locks.wait_replicas`.
    package var waitReplicas: Int

    package init(services: [FleetService], sidecars: Int, waitReplicas: Int = 0) {
        self.services = services
        self.sidecars = sidecars
        self.waitReplicas = waitReplicas
    }

    /// The text of the file for `interlock serve --config`. Command-line flags set the address of Redis and the
    /// listening addresses.
    package var yaml: String {
        var lines = [
            "listen: { max_connections: \(maximumConnections) }", "log: { level: warning }", "fleet_size: \(sidecars)",
        ]
        if waitReplicas > 0 { lines.append("locks: { wait_replicas: \(waitReplicas) }") }
        guard !services.isEmpty else { return lines.joined(separator: "\n") + "\n" }
        lines.append("services:")
        for service in services { lines += Self.lines(of: service) }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func lines(of service: FleetService) -> [String] {
        let rules = service.rules
        var lines = ["  \(quoted(rules.name)):"]
        if let url = service.url {
            // Because of the timeout, no call outlasts its permit, even if an outage delays it.
            lines += ["    url: \(quoted(url))", "    timeouts: { total: \(rules.permitLifetimeMilliseconds)ms }"]
        }
        if !rules.limits.isEmpty {
            lines.append("    limits:")
            lines += rules.limits.enumerated().map { "      - \(limit($1, number: $0))" }
        }
        lines.append("    when_redis_is_down: \(rules.whenRedisIsDown.rawValue)")
        lines.append("    permit_ttl: \(rules.permitLifetimeMilliseconds)ms")
        if let permits = rules.halfOpenPermits {
            let breaker = service.breaker
            let openFor = breaker.openForMilliseconds
            lines.append(
                "    breaker: { failure_rate: \(breaker.failurePercent)%, window: \(breaker.windowMilliseconds)ms, minimum_calls: \(breaker.minimumCalls), open_for: \(openFor.lowerBound)ms..\(openFor.upperBound)ms, half_open_permits: \(permits) }"
            )
        }
        return lines
    }

    private static func limit(_ rule: LimitRule, number: Int) -> String {
        var fields = [
            "name: limit-\(number)", "limit: \(rule.limit)", "per: \(rule.windowMilliseconds)ms",
            "algorithm: \(rule.algorithm.rawValue)",
        ]
        switch rule.algorithm {
        case .fixed, .sliding: break
        case .gcra: fields.append("burst: \(rule.burst)")
        }
        if rule.isPerSubject { fields.append("per_subject: true") }
        return "{ \(fields.joined(separator: ", ")) }"
    }

    private static func quoted(_ text: String) -> String {
        let escaped = text.flatMap { $0 == "\"" || $0 == "\\" ? ["\\", $0] : [$0] }
        return "\"\(String(escaped))\""
    }
}

/// A service in the configuration of sidecars that the harness starts.
package struct FleetService: Hashable, Sendable {
    package var rules: ServiceRules
    /// The settings of the breaker, which are used only if `rules` include a breaker.
    package var breaker: Breaker
    /// The URL of the upstream; `nil` if the service cannot be called through the proxy.
    package var url: String?

    /// The settings of a breaker.
    package struct Breaker: Hashable, Sendable {
        package var failurePercent = 50
        package var windowMilliseconds: Int64 = 2000
        package var minimumCalls = 20
        package var openForMilliseconds: ClosedRange<Int64> = 400...1500

        package init() {}
    }

    package init(rules: ServiceRules, breaker: Breaker = Breaker(), url: String? = nil) {
        self.rules = rules
        self.breaker = breaker
        self.url = url
    }
}
