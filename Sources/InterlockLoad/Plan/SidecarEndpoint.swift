package import InterlockClient
internal import RedisClient

/// A sidecar that receives the load of a run.
package struct SidecarEndpoint: Sendable {
    /// The number of the sidecar in the fleet, from 0.
    package var number: Int
    /// The settings of connections to the RESP API. Requests to the HTTP API carry the same API key.
    package var resp: SidecarClientConfiguration
    /// The address of the HTTP API; `nil` if the run sends no requests through the proxy.
    package var http: HTTPAddress?

    package struct HTTPAddress: Hashable, Sendable {
        package var host: String
        package var port: Int

        package init(host: String, port: Int) {
            self.host = host
            self.port = port
        }
    }

    package init(number: Int, resp: SidecarClientConfiguration, http: HTTPAddress? = nil) {
        self.number = number
        self.resp = resp
        self.http = http
    }

    private static let unixPrefix = "unix:"
    private static let expectation =
        "a sidecar's RESP address: HOST:PORT, unix:PATH, or redis://[[user]:key@]host:port (rediss:// for TLS)"

    /// Parses `HOST:PORT`, `unix:PATH`, or a Redis URL, whose password is the API key.
    package init(argument: String, number: Int) throws(LoadArgumentError) {
        self.init(number: number, resp: try Self.resp(argument))
    }

    /// Returns the settings of the run's clients. Connection attempts and logins time out after half a second and are
    /// retried.
    static func resp(at address: SidecarAddress) -> SidecarClientConfiguration {
        var resp = SidecarClientConfiguration(address: address)
        resp.connectTimeout = .milliseconds(500)
        resp.responseTimeout = .milliseconds(500)
        return resp
    }

    private static func resp(_ argument: String) throws(LoadArgumentError) -> SidecarClientConfiguration {
        if argument.hasPrefix(unixPrefix), !argument.hasPrefix("unix://") {
            let path = String(argument.dropFirst(unixPrefix.count))
            guard !path.isEmpty else { throw LoadArgumentError(expected: expectation, found: argument) }
            return resp(at: .unixSocket(path: path))
        }
        let isURL = argument.contains("://")
        // A URL may contain an API key even if it is malformed, so the error does not repeat it.
        let shownArgument = isURL || argument.contains("@") ? nil : argument
        let url: RedisConfiguration
        do {
            url = try RedisConfiguration(url: isURL ? argument : "redis://" + argument)
        } catch {
            throw LoadArgumentError(expected: "\(expectation); \(error.reason)", found: shownArgument)
        }
        guard url.database == 0, isURL || url.password == nil else {
            throw LoadArgumentError(expected: "\(expectation), without a database", found: nil)
        }
        // Without a port, the URL would mean the default port of Redis, which no sidecar uses.
        guard namesPort(argument, url) else {
            throw LoadArgumentError(expected: "\(expectation), with a port", found: shownArgument)
        }
        var resp =
            switch url.address {
            case .unixSocket(let path): resp(at: .unixSocket(path: path))
            case .host(let host, let port):
                resp(at: url.tls == nil ? .tcp(host: host, port: port) : .tls(host: host, port: port))
            case .primary, .cluster: throw LoadArgumentError(expected: expectation, found: nil)
            }
        resp.apiKey = url.password
        resp.apiKeyName = url.username
        return resp
    }

    /// Returns whether the argument itself contains the port of its address.
    private static func namesPort(_ argument: String, _ url: RedisConfiguration) -> Bool {
        switch url.address {
        case .unixSocket, .primary, .cluster: true
        case .host(_, let port): [":\(port)", ":\(port)/", ":\(port)/0"].contains { argument.hasSuffix($0) }
        }
    }
}
