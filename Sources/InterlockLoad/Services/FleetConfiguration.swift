package import InterlockJudge

/// The configuration file of a harness's own sidecars.
package struct FleetConfiguration: Sendable {
    package var services: [FleetService]
    /// How many sidecars there will be.
    package var sidecars: Int
    /// The most connections of clients at one sidecar.
    package var maximumConnections = 15_000

    /// `locks.wait_replicas`.
    package var waitReplicas: Int

    package init(services: [FleetService], sidecars: Int, waitReplicas: Int = 0) {
        self.services = services
        self.sidecars = sidecars
        self.waitReplicas = waitReplicas
    }

    /// As `interlock serve --config` reads it. Where Redis is and where the doors are, flags say.
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
            // So that a call that an outage holds up does not outlast its permit.
            lines += ["    url: \(quoted(url))", "    timeouts: { total: \(rules.permitLifetime)ms }"]
        }
        if !rules.limits.isEmpty {
            lines.append("    limits:")
            lines += rules.limits.enumerated().map { "      - \(limit($1, number: $0))" }
        }
        lines.append("    when_redis_is_down: \(rules.whenRedisIsDown.rawValue)")
        lines.append("    permit_ttl: \(rules.permitLifetime)ms")
        if let permits = rules.halfOpenPermits {
            let breaker = service.breaker
            lines.append(
                "    breaker: { failure_rate: \(breaker.failurePercent)%, window: \(breaker.window)ms, minimum_calls: \(breaker.minimumCalls), open_for: \(breaker.openFor.lowerBound)ms..\(breaker.openFor.upperBound)ms, half_open_permits: \(permits) }"
            )
        }
        return lines
    }

    private static func limit(_ rule: LimitRule, number: Int) -> String {
        var fields = [
            "name: limit-\(number)", "limit: \(rule.limit)", "per: \(rule.window)ms", "algorithm: \(rule.algorithm.rawValue)",
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

/// A service as the harness's own sidecars are told of it.
package struct FleetService: Hashable, Sendable {
    package var rules: ServiceRules
    /// When its breaker trips, if `rules` say that it has one.
    package var breaker: Breaker
    /// Where its upstream is; `nil`: it cannot be called through the proxy.
    package var url: String?

    /// Times in ms.
    package struct Breaker: Hashable, Sendable {
        package var failurePercent = 50
        package var window: Int64 = 2000
        package var minimumCalls = 20
        package var openFor: ClosedRange<Int64> = 400...1500

        package init() {}
    }

    package init(rules: ServiceRules, breaker: Breaker = Breaker(), url: String? = nil) {
        self.rules = rules
        self.breaker = breaker
        self.url = url
    }
}
