extension ListenSettings {
    static let respPath = "listen.resp"
    static let httpPath = "listen.http"
    private static let connectionCounts = 1...1_000_000
    /// What `sockaddr_un` holds on every platform, less the closing NUL.
    private static let longestSocketPath = 103

    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("resp", into: &resp) { $0.endpoint() }
            section.read("http", into: &http) { $0.endpoint() }
            section.readOptional("unix", into: &unix) { $0.parsed(by: Self.checkedSocketPath) }
            section.read("hosts") { hosts = $0.list().compactMap { $0.parsed(by: Self.checkedHost) } }
            section.readOptional("tls", into: &tls) { TLSSettings(reading: $0) }
            section.read("allow_plaintext", into: &allowsPlaintext) { $0.flag() }
            section.read("max_connections", into: &maximumConnections) { $0.wholeNumber(in: Self.connectionCounts) }
        }
    }

    static func checkedSocketPath(_ path: String) throws(ConfigurationExpectation) -> String {
        let isAcceptable = !path.isEmpty && path.utf8.count <= longestSocketPath && !path.utf8.contains(0)
        guard isAcceptable else { throw ConfigurationExpectation("the path of a socket, 1-\(longestSocketPath) bytes") }
        return path
    }

    private static func checkedHost(_ text: String) throws(ConfigurationExpectation) -> String {
        guard SocketEndpoint.isHostName(text) else {
            throw ConfigurationExpectation("a host name without port, such as interlock.internal")
        }
        return text
    }
}

extension TLSSettings {
    /// `nil` when something was refused.
    fileprivate init?(reading value: ConfigurationValue) {
        var certificate: String?
        var key: String?
        value.section { section in
            certificate = section.required("certificate", "the path of a PEM file") { $0.parsed(by: Self.readableFile) }
            key = section.required("key", "the path of a PEM file") { $0.parsed(by: Self.readableFile) }
        }
        guard let certificate, let key else { return nil }
        self.init(certificate: certificate, key: key)
        do {
            _ = try serverContext()
        } catch {
            value.refuse(error.description)
            return nil
        }
    }

    static func readableFile(_ path: String) throws(ConfigurationExpectation) -> String {
        guard ConfigurationFile(path: path).isReadable else {
            throw ConfigurationExpectation("the path of a PEM file that exists and can be read")
        }
        return path
    }
}

extension ConfigurationValue {
    /// HOST:PORT; remembers where it was said, for rules that see all listeners together.
    fileprivate func endpoint() -> SocketEndpoint? {
        findings.places[path] = place
        return parsed(by: SocketEndpoint.init(parsing:))
    }
}
