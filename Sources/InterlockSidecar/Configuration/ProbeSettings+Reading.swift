import InterlockCore

extension ProbeSettings {
    private static let intervals: ClosedRange<Duration> = .milliseconds(10) ... .seconds(86_400)
    private static let counts = 1...1000

    /// Reads `services.NAME.probe`.
    init?(reading value: ConfigurationValue) {
        var targets: [(place: ConfigurationValue, target: Target?)] = []
        var timeout: Duration?
        var expectation: ConfigurationValue?
        var settings = ProbeSettings(target: .http("/"))
        value.section { section in
            section.read("path") { targets.append(($0, $0.parsed(by: Self.checkedPath).map { .http($0) })) }
            section.read("url") { targets.append(($0, $0.parsed(by: Self.checkedURL).map { .http($0) })) }
            section.read("tcp") { targets.append(($0, $0.parsed(by: Self.checkedTCP))) }
            section.read("every", into: &settings.interval) { $0.duration(in: Self.intervals) }
            section.read("timeout") { value in
                guard let duration = value.duration(in: Self.intervals) else { return }
                timeout = duration
                guard duration >= settings.interval else { return }
                let interval = DurationText.shortest(settings.interval)
                value.refuse(expected: ConfigurationExpectation("a duration shorter than every (\(interval))"))
            }
            section.read("expect") {
                expectation = $0
                settings.expectation.read($0)
            }
            section.read("unhealthy_after", into: &settings.unhealthyAfter) { $0.wholeNumber(in: Self.counts) }
            section.read("healthy_after", into: &settings.healthyAfter) { $0.wholeNumber(in: Self.counts) }
            section.read("trial", into: &settings.isFollowedByTrial) { $0.flag() }
            section.read("from", into: &settings.origin) { $0.parsed(by: Origin.init(parsing:)) }
        }
        guard let first = targets.first else {
            value.refuse("expected one of the keys path, url and tcp: what the probe asks")
            return nil
        }
        for other in targets.dropFirst() { other.place.refuse("expected only one of path, url and tcp") }
        // Two probes of a service are never under way at the same time.
        settings.timeout = timeout ?? min(settings.timeout, settings.interval * 4 / 5)
        guard let target = first.target else { return nil }
        settings.target = target
        if case .tcp = target { expectation?.refuse("goes with path or url: a connection alone has no answer to judge") }
        self = settings
    }

    /// Whether it is asked below the service's URL, which there must be then.
    var needsServiceURL: Bool {
        guard case .http(let address) = target else { return false }
        return address.hasPrefix("/")
    }

    private static func checkedPath(_ text: String) throws(ConfigurationExpectation) -> String {
        guard text.hasPrefix("/"), text.utf8.allSatisfy(isVisible) else {
            throw ConfigurationExpectation("a path that begins with / and has no spaces")
        }
        return text
    }

    private static func checkedURL(_ text: String) throws(ConfigurationExpectation) -> String {
        _ = try UpstreamSettings.checkedURL(String(text.prefix { $0 != "?" }))
        guard text.utf8.allSatisfy(isVisible), !text.contains("#") else {
            throw ConfigurationExpectation("a URL without a fragment, other characters than ASCII percent-encoded")
        }
        return text
    }

    private static func checkedTCP(_ text: String) throws(ConfigurationExpectation) -> Target {
        let endpoint = try SocketEndpoint(parsing: text)
        guard endpoint.port > 0 else { throw ConfigurationExpectation("HOST:PORT with a port of 1 or more") }
        return .tcp(host: endpoint.host, port: endpoint.port)
    }

    /// Visible ASCII.
    private static func isVisible(_ byte: UInt8) -> Bool { byte > 0x20 && byte < 0x7F }
}
