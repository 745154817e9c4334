/// How the outage monitor looks after a service: apart from user traffic, at a fixed pace.
package struct ProbeSettings: Hashable, Sendable {
    /// What is asked.
    package enum Target: Hashable, Sendable {
        /// A `GET` of this path below the service's URL, or of a whole URL.
        case http(String)
        /// A connection to `host:port` that is made and closed.
        case tcp(host: String, port: Int)
    }

    /// Who asks.
    package enum Origin: String, CaseIterable, Hashable, Sendable {
        /// One sidecar of the fleet, elected.
        case one
        /// Every sidecar; the majority of the fleet decides.
        case all
    }

    package var target: Target
    /// From the beginning of one probe to that of the next.
    package var interval: Duration
    /// For the whole probe, connection and body included.
    package var timeout: Duration
    package var expectation: ProbeExpectation
    /// So many failed probes in a row open the breaker.
    package var unhealthyAfter: Int
    /// So many good probes in a row bring it back.
    package var healthyAfter: Int
    /// It comes back through half-open, so that real calls have the last word, and not at once.
    package var isFollowedByTrial: Bool
    package var origin: Origin

    package init(
        target: Target, interval: Duration = .seconds(5), timeout: Duration = .seconds(1),
        expectation: ProbeExpectation = ProbeExpectation(), unhealthyAfter: Int = 3, healthyAfter: Int = 2,
        isFollowedByTrial: Bool = false, origin: Origin = .one
    ) {
        self.target = target
        self.interval = interval
        self.timeout = timeout
        self.expectation = expectation
        self.unhealthyAfter = unhealthyAfter
        self.healthyAfter = healthyAfter
        self.isFollowedByTrial = isFollowedByTrial
        self.origin = origin
    }

    /// For how long an outage stands that nobody speaks of any more: whoever probes has died.
    package var outageLapse: Duration { interval * 3 + timeout }
}

extension ProbeSettings: DigestedSetting {
    package var digestedParts: Parts {
        [
            ("target", target), ("interval", interval), ("timeout", timeout), ("expectation", expectation),
            ("unhealthyAfter", unhealthyAfter), ("healthyAfter", healthyAfter), ("isFollowedByTrial", isFollowedByTrial),
            ("origin", origin),
        ]
    }
}

extension ProbeSettings.Target: DigestedSetting {
    package var digestedParts: Parts {
        switch self {
        case .http(let url): [("http", url)]
        case .tcp(let host, let port): [("tcp.host", host), ("tcp.port", port)]
        }
    }
}

extension ProbeSettings.Origin: DigestedSetting {}

extension ProbeExpectation.Header: DigestedSetting {
    package var digestedParts: Parts { [("name", name), ("value", value)] }
}

extension ProbeExpectation.Body: DigestedSetting {
    package var digestedParts: Parts {
        switch self {
        case .contains(let text): [("contains", text)]
        case .json(let path, let value): [("json.path", path), ("json.equals", value)]
        }
    }
}
