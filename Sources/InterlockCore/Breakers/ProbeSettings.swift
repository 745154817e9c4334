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

/// What a good answer to an HTTP probe looks like: all that is said must hold.
package struct ProbeExpectation: Hashable, Sendable {
    /// What the body must have; judged on its first `inspectedBytes`.
    package enum Body: Hashable, Sendable {
        case contains(String)
        /// The value at a path of JSON (RFC 9535's dots and brackets with names and numbers), as text.
        case json(path: String, equals: String)
    }

    /// A header that must be there, with this value.
    package struct Header: Hashable, Sendable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// How much of a body is looked at.
    package static let inspectedBytes = 64 * 1024

    package var statuses: StatusSet
    package var headers: [Header]
    package var body: [Body]

    package init(statuses: StatusSet = StatusSet(200...399), headers: [Header] = [], body: [Body] = []) {
        self.statuses = statuses
        self.headers = headers
        self.body = body
    }
}

extension ProbeExpectation: DigestedSetting {
    package var digestedParts: Parts { [("statuses", statuses), ("headers", headers), ("body", body)] }
}

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

/// What the outage monitor tells a service's breaker.
package enum OutageFinding: Hashable, Sendable {
    /// As many probes failed in a row as make an outage; said again with each further one. The reason is for people.
    case down(reason: String)
    /// The same, of one sidecar that probes for all: its own network may be at fault. It counts when another one suspects or seconds
    /// it, or when there is no other.
    case suspected(reason: String)
    /// A bad probe, of too few in a row: it counts when another sidecar suspects an outage.
    case seconded(reason: String)
    /// As many probes were good in a row as end an outage.
    case up
}
