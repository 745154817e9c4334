import InterlockCore

extension ProbeSettings {
    private static let intervalRange: ClosedRange<Duration> = .milliseconds(10) ... .seconds(86_400)
    private static let countRange = 1...1000

    /// Reads `services.NAME.probe`.
    init?(reading value: ConfigurationValue) {
        var targets: [(value: ConfigurationValue, target: Target?)] = []
        var timeout: Duration?
        var expectationValue: ConfigurationValue?
        var settings = ProbeSettings(target: .http("/"))
        value.section(shorthand: value.text?.hasPrefix("/") == true ? "path" : "url") { section in
            section.read("path") { targets.append(($0, $0.parsed(by: Self.checkedPath).map { .http($0) })) }
            section.read("url") { targets.append(($0, $0.parsed(by: Self.checkedURL).map { .http($0) })) }
            section.read("tcp") { targets.append(($0, $0.parsed(by: Self.checkedTCP))) }
            section.read("every", into: &settings.interval) { $0.duration(in: Self.intervalRange) }
            section.read("timeout") { value in
                guard let duration = value.duration(in: Self.intervalRange) else { return }
                timeout = duration
                guard duration >= settings.interval else { return }
                let interval = DurationText.shortest(settings.interval)
                value.reject(expected: InvalidConfigurationValue("a duration shorter than every (\(interval))"))
            }
            section.read("expect") {
                expectationValue = $0
                settings.expectation.read($0)
            }
            section.read("unhealthy_after", into: &settings.unhealthyAfter) { $0.wholeNumber(in: Self.countRange) }
            section.read("healthy_after", into: &settings.healthyAfter) { $0.wholeNumber(in: Self.countRange) }
            section.read("trial", into: &settings.isFollowedByTrial) { $0.flag() }
            section.read("from", into: &settings.origin) { $0.parsed(by: Origin.init(parsing:)) }
        }
        guard let firstTarget = targets.first else {
            value.reject("expected one of the keys path, url and tcp: the target of the probe")
            return nil
        }
        for other in targets.dropFirst() { other.value.reject("expected only one of path, url and tcp") }
        // The default timeout is shorter than the interval, so that probes of a service never overlap.
        settings.timeout = timeout ?? min(settings.timeout, settings.interval * 4 / 5)
        guard let target = firstTarget.target else { return nil }
        settings.target = target
        if case .tcp = target { expectationValue?.reject("requires path or url; a TCP probe has no response to check") }
        self = settings
    }

    /// Whether the service must have a URL, because the target is a path below it.
    var needsServiceURL: Bool {
        guard case .http(let address) = target else { return false }
        return address.hasPrefix("/")
    }

    private static func checkedPath(_ path: String) throws(InvalidConfigurationValue) -> String {
        guard path.hasPrefix("/"), path.utf8.allSatisfy(isVisible) else {
            throw InvalidConfigurationValue("a path that begins with / and has no spaces")
        }
        return path
    }

    private static func checkedURL(_ url: String) throws(InvalidConfigurationValue) -> String {
        _ = try UpstreamSettings.checkedURL(String(url.prefix { $0 != "?" }))
        guard url.utf8.allSatisfy(isVisible), !url.contains("#") else {
            throw InvalidConfigurationValue("a URL without a fragment, with all non-ASCII characters percent-encoded")
        }
        return url
    }

    private static func checkedTCP(_ address: String) throws(InvalidConfigurationValue) -> Target {
        let endpoint = try SocketEndpoint(parsing: address)
        guard endpoint.port > 0 else { throw InvalidConfigurationValue("HOST:PORT with a port of 1 or more") }
        return .tcp(host: endpoint.host, port: endpoint.port)
    }

    /// Returns whether a byte is visible ASCII.
    private static func isVisible(_ byte: UInt8) -> Bool { byte > 0x20 && byte < 0x7F }
}

extension ProbeExpectation {
    private static let maximumTextBytes = 1000

    /// Reads `services.NAME.probe.expect`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("status", into: &statuses) { $0.statuses() }
            section.read("headers") { headers = Self.headers($0) }
            section.read("body") { value in
                if let text = value.parsed(by: Self.checkedText) { body.append(.contains(text)) }
            }
            section.read("json") { body += Self.members($0) }
            section.reject(
                ["body_matches"],
                "regular expressions are no longer supported; write body: TEXT to require a string in the body, "
                    + "or json: { PATH: VALUE } to require a value of a JSON body")
        }
    }

    private static func headers(_ value: ConfigurationValue) -> [Header] {
        var headers: [Header] = []
        value.section { section in
            for entry in section.namedEntries() {
                guard HTTPToken.isValid(entry.name), entry.name.utf8.count <= maximumTextBytes else {
                    entry.key.reject("expected a header name")
                    continue
                }
                guard let value = entry.value.parsed(by: checkedText) else { continue }
                headers.append(Header(name: entry.name, value: value))
            }
        }
        return headers
    }

    /// Reads a mapping from JSON paths to expected texts.
    private static func members(_ value: ConfigurationValue) -> [Body] {
        var members: [Body] = []
        value.section { section in
            for entry in section.namedEntries() {
                do throws(JSONPath.Violation) {
                    _ = try JSONPath(entry.name)
                } catch {
                    entry.key.reject("expected a path such as $.status or $.checks[0]['disk']: \(error)")
                    continue
                }
                // Unquoted values such as true, 5 and null are accepted as texts.
                guard let text = entry.value.isNull ? "null" : entry.value.parsed(by: checkedMember) else { continue }
                members.append(.json(path: entry.name, equals: text))
            }
        }
        return members
    }

    private static func checkedMember(_ text: String) throws(InvalidConfigurationValue) -> String {
        guard text.utf8.count <= maximumTextBytes else {
            throw InvalidConfigurationValue("a string of at most \(maximumTextBytes) bytes")
        }
        return text
    }

    private static func checkedText(_ text: String) throws(InvalidConfigurationValue) -> String {
        guard !text.isEmpty, text.utf8.count <= maximumTextBytes else {
            throw InvalidConfigurationValue("a string of 1-\(maximumTextBytes) bytes")
        }
        return text
    }
}
