package import InterlockClient
internal import RedisClient

/// A sidecar that a run drives.
package struct SidecarEndpoint: Sendable {
    /// Its number in the fleet, from 0.
    package var number: Int
    /// Its RESP door. The API key is also shown at the HTTP door.
    package var door: SidecarClientConfiguration
    /// Its HTTP door; `nil`: nothing is sent through its proxy.
    package var http: HTTPAddress?

    package struct HTTPAddress: Hashable, Sendable {
        package var host: String
        package var port: Int

        package init(host: String, port: Int) {
            self.host = host
            self.port = port
        }
    }

    package init(number: Int, door: SidecarClientConfiguration, http: HTTPAddress? = nil) {
        self.number = number
        self.door = door
        self.http = http
    }

    private static let unixPrefix = "unix:"
    private static let expectation =
        "a sidecar's RESP door: HOST:PORT, unix:PATH, or redis://[[user]:key@]host:port (rediss:// for TLS)"

    /// Reads `HOST:PORT`, `unix:PATH`, or a URL as Redis clients have it, whose password is the API key.
    package init(argument: String, number: Int) throws(LoadArgumentError) {
        self.init(number: number, door: try Self.door(argument))
    }

    /// The settings of a run's clients: what takes longer than half a second is told as such, and tried again.
    static func door(at address: SidecarAddress) -> SidecarClientConfiguration {
        var door = SidecarClientConfiguration(address: address)
        door.connectTimeout = .milliseconds(500)
        door.answerTimeout = .milliseconds(500)
        return door
    }

    private static func door(_ argument: String) throws(LoadArgumentError) -> SidecarClientConfiguration {
        if argument.hasPrefix(unixPrefix), !argument.hasPrefix("unix://") {
            let path = String(argument.dropFirst(unixPrefix.count))
            guard !path.isEmpty else { throw LoadArgumentError(expected: expectation, found: argument) }
            return door(at: .unixSocket(path: path))
        }
        let isURL = argument.contains("://")
        // A URL, or what was to be one, may hold a key: it is not repeated.
        let shown = isURL || argument.contains("@") ? nil : argument
        let url: RedisConfiguration
        do {
            url = try RedisConfiguration(url: isURL ? argument : "redis://" + argument)
        } catch {
            throw LoadArgumentError(expected: "\(expectation); \(error.reason)", found: shown)
        }
        guard url.database == 0, isURL || url.password == nil else {
            throw LoadArgumentError(expected: "\(expectation), without a database", found: nil)
        }
        // Redis' own port, which a URL without one would mean, is no sidecar's.
        guard namesPort(argument, url) else {
            throw LoadArgumentError(expected: "\(expectation), with its port", found: shown)
        }
        var door =
            switch url.address {
            case .unixSocket(let path): door(at: .unixSocket(path: path))
            case .host(let host, let port):
                door(at: url.tls == nil ? .tcp(host: host, port: port) : .tls(host: host, port: port))
            case .primary, .cluster: throw LoadArgumentError(expected: expectation, found: nil)
            }
        door.apiKey = url.password
        door.apiKeyName = url.username
        return door
    }

    private static func namesPort(_ argument: String, _ url: RedisConfiguration) -> Bool {
        switch url.address {
        case .unixSocket, .primary, .cluster: true
        case .host(_, let port): [":\(port)", ":\(port)/", ":\(port)/0"].contains { argument.hasSuffix($0) }
        }
    }
}
