/// The outage monitor's probes of a service: independent of user traffic, at a fixed interval.
package struct ProbeSettings: Hashable, Sendable {
    /// The target of a probe.
    package enum Target: Hashable, Sendable {
        /// A `GET` of this path below the service's URL, or of a whole URL.
        case http(String)
        /// A connection to `host:port` that is opened and closed.
        case tcp(host: String, port: Int)
    }

    /// The sidecars that send probes.
    package enum Origin: String, CaseIterable, Hashable, Sendable {
        /// One elected sidecar of the fleet.
        case one
        /// Every sidecar. The majority of the fleet decides.
        case all
    }

    package var target: Target
    /// The time from the start of one probe to the start of the next.
    package var interval: Duration
    /// The maximum duration of a probe, including connection and body.
    package var timeout: Duration
    package var expectation: ProbeExpectation
    /// The number of failed probes in a row that opens the breaker.
    package var unhealthyAfter: Int
    /// The number of successful probes in a row that ends the outage.
    package var healthyAfter: Int
    /// Whether the breaker goes through half-open after an outage, so that real calls decide, instead of closing
    /// immediately.
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

    /// The lifetime of an outage that no further probe confirms, because the sidecar that probes may have died.
    package var outageLifetime: Duration { interval * 3 + timeout }
}

extension ProbeSettings: DigestedSetting {
    package var digestedParts: Parts {
        [
            ("target", target), ("interval", interval), ("timeout", timeout), ("expectation", expectation),
            ("unhealthyAfter", unhealthyAfter), ("healthyAfter", healthyAfter),
            ("isFollowedByTrial", isFollowedByTrial),
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
