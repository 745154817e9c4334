import InterlockCore

extension UpstreamSettings {
    /// The value that means no limit, in place of a duration.
    static let noLimit = "none"
    fileprivate static let timeoutRange: ClosedRange<Duration> = .milliseconds(1) ... .seconds(86_400)
    fileprivate static let ageRange: ClosedRange<Duration> = .seconds(1) ... .seconds(366 * 86_400)
    fileprivate static let attemptCountRange = 0...10
    fileprivate static let rateRange = 0...1_000_000
    fileprivate static let statusRange = 200...599
    fileprivate static let maximumBodyBytes = 64 * 1024

    /// Reads `url`, `tls`, `http2`, `timeouts`, `connections`, `retries` and `fallback` of a service. Returns `nil` if
    /// the service has no valid `url`.
    init?(reading section: ConfigurationSection) {
        var settings = UpstreamSettings(url: "")
        var url: String?
        section.readOptional("url", into: &url) { $0.parsed(by: Self.checkedURL) }
        section.readOptional("tls", into: &settings.certificateAuthority) { Self.certificateAuthority($0) }
        section.read("http2", into: &settings.speaksHTTP2) { $0.flag() }
        section.read("timeouts") { settings.readTimeouts($0) }
        section.read("connections") { settings.connections.read($0) }
        section.read("retries") { settings.retries.read($0) }
        section.readOptional("fallback", into: &settings.fallback) { FallbackSettings(reading: $0) }
        if section.value("url").map(\.isNull) ?? true {
            section.reject(
                ["tls", "http2", "timeouts", "connections", "retries", "fallback"], "requires url, which is not set")
        } else if url?.lowercased().hasPrefix("http://") == true {
            section.reject(["tls"], "requires a url that begins with https://")
        }
        guard let url else { return nil }
        settings.url = url
        if section.mapping.findings.readsSecrets {
            settings.certificateAuthorityDigest = TLSSettings.digest(ofFile: settings.certificateAuthority)
        }
        self = settings
    }

    private mutating func readTimeouts(_ value: ConfigurationValue) {
        value.section(shorthand: "total") { section in
            section.read("connect", into: &connectTimeout) { $0.duration(in: Self.timeoutRange) }
            section.read("first_byte", into: &firstByteTimeout) { $0.duration(in: Self.timeoutRange) }
            section.read("idle", into: &idleTimeout) { $0.duration(in: Self.timeoutRange) }
            section.read("total") { value in
                totalTimeout = value.text == Self.noLimit ? nil : value.duration(in: Self.timeoutRange)
            }
            if let connect = section.value("connect"), let totalTimeout, connectTimeout > totalTimeout {
                connect.findings.warn("\(connect.path) has no effect: timeouts.total is shorter and ends the call first")
            }
        }
    }

    private static func certificateAuthority(_ value: ConfigurationValue) -> String? {
        var file: String?
        value.section(shorthand: "ca") { section in
            file = section.required("ca", "the path of a PEM file", TLSSettings.authorities)
        }
        return file
    }

    /// Checks the URL of a service: `http://` or `https://`, a host, and optionally a port and a path.
    static func checkedURL(_ text: String) throws(InvalidConfigurationValue) -> String {
        let expectation = InvalidConfigurationValue("a URL that begins with http:// or https:// and names a host")
        let schemes = ["http://", "https://"]
        guard let scheme = schemes.first(where: { text.lowercased().hasPrefix($0) }),
            !text.unicodeScalars.contains(where: ConfigurationText.isSpaceOrControl)
        else { throw expectation }
        let authority = text.dropFirst(scheme.count).prefix { !"/?#".contains($0) }
        guard !authority.contains("@"), !text.contains("?"), !text.contains("#") else {
            throw InvalidConfigurationValue("a URL without user, query or fragment")
        }
        let hasPort = authority.last != "]" && authority.contains(":")
        do {
            _ = try SocketEndpoint(parsing: hasPort ? String(authority) : "\(authority):0")
        } catch {
            throw expectation
        }
        guard UpstreamBase(text) != nil else {
            throw InvalidConfigurationValue("a URL whose path is percent-encoded and has no . or .. segments")
        }
        return text
    }
}

extension ConnectionSettings {
    fileprivate mutating func read(_ value: ConfigurationValue) {
        value.section(shorthand: "idle") { section in
            section.read("idle", into: &idle) { $0.duration(in: UpstreamSettings.timeoutRange) }
            section.read("max_age") { value in
                if value.text == UpstreamSettings.noLimit {
                    maximumAge = nil
                } else {
                    maximumAge = value.duration(in: UpstreamSettings.timeoutRange)
                }
            }
        }
    }
}

extension RetrySettings {
    fileprivate mutating func read(_ value: ConfigurationValue) {
        value.section(shorthand: "attempts") { section in
            section.read("attempts", into: &attempts) { $0.wholeNumber(in: UpstreamSettings.attemptCountRange) }
            section.read("budget", into: &budget) { $0.percentage() }
            section.read("min_per_second", into: &minimumPerSecond) { $0.wholeNumber(in: UpstreamSettings.rateRange) }
        }
    }
}

extension FallbackSettings {
    /// Returns `nil` if the fallback is incomplete or invalid.
    fileprivate init?(reading value: ConfigurationValue) {
        var status: Int?
        var maximumAge: Duration?
        var body = ""
        var mediaType = "text/plain"
        value.section(shorthand: "status") { section in
            section.read("status", into: &status) { $0.wholeNumber(in: UpstreamSettings.statusRange) }
            section.read("body", into: &body) { $0.parsed(by: Self.checkedBody) }
            section.read("type", into: &mediaType) { $0.parsed(by: Self.checkedMediaType) }
            section.read("last_good", into: &maximumAge) { $0.duration(in: UpstreamSettings.ageRange) }
            if section.value("last_good") != nil {
                section.reject(["status", "body", "type"], "conflicts with last_good; remove one of them")
            } else if section.value("status") == nil {
                section.mapping.reject("expected last_good, or status with optional body and type")
            }
        }
        if let maximumAge {
            self = .lastGood(maximumAge: maximumAge)
        } else if let status {
            self = .fixed(status: status, body: body, mediaType: mediaType)
        } else {
            return nil
        }
    }

    private static func checkedBody(_ body: String) throws(InvalidConfigurationValue) -> String {
        guard body.utf8.count <= UpstreamSettings.maximumBodyBytes else {
            throw InvalidConfigurationValue("a string of at most \(UpstreamSettings.maximumBodyBytes) bytes")
        }
        return body
    }

    private static func checkedMediaType(_ mediaType: String) throws(InvalidConfigurationValue) -> String {
        let isAcceptable = mediaType.contains("/") && mediaType.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
        guard isAcceptable else { throw InvalidConfigurationValue("a media type such as text/plain or application/json") }
        return mediaType
    }
}
