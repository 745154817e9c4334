public import ArgumentParser
package import InterlockClient
import InterlockCore

extension SidecarAddress: ExpressibleByArgument {
    private static let unixPrefix = "unix:"
    private static let tlsPrefix = "rediss://"
    private static let plainPrefix = "redis://"

    /// Parses `HOST:PORT`, `redis://HOST:PORT`, `rediss://HOST:PORT` or `unix:PATH`.
    package init?(argument: String) {
        if argument.hasPrefix(Self.unixPrefix) {
            let path = argument.dropFirst(Self.unixPrefix.count)
            guard !path.isEmpty else { return nil }
            self = .unixSocket(path: String(path))
        } else if argument.hasPrefix(Self.tlsPrefix) {
            guard let endpoint = Self.endpoint(argument.dropFirst(Self.tlsPrefix.count)) else { return nil }
            self = .tls(host: endpoint.host, port: endpoint.port)
        } else {
            let isURL = argument.hasPrefix(Self.plainPrefix)
            guard let endpoint = Self.endpoint(argument.dropFirst(isURL ? Self.plainPrefix.count : 0)) else { return nil }
            self = .tcp(host: endpoint.host, port: endpoint.port)
        }
    }

    package var defaultValueDescription: String { description }

    private static func endpoint(_ text: Substring) -> SocketEndpoint? {
        guard let endpoint = try? SocketEndpoint(parsing: String(text)), endpoint.port > 0 else { return nil }
        return endpoint
    }

    /// Parses a sidecar's address from `name`, an option or a variable.
    /// - Throws: `CommandFailure` if the address is invalid. The message omits an API key that the user put into the
    ///   address.
    package static func read(_ text: String, from name: String) throws(CommandFailure) -> SidecarAddress {
        if let address = SidecarAddress(argument: text) { return address }
        let hint = suggestion(for: text).map { ": did you mean \($0)?" } ?? ""
        let remedy = text.contains("@") ? "; put the API key in INTERLOCK_API_KEY" : hint
        throw CommandFailure(
            "\(name): expected HOST:PORT such as \(standard), redis://HOST:PORT, rediss://HOST:PORT or unix:PATH, got "
                + "\"\(RedactedURL(text))\"\(remedy)",
            .usage)
    }

    /// Returns the likely address for a bare port or an HTTP URL; `nil` if the text has another mistake.
    private static func suggestion(for text: String) -> SidecarAddress? {
        guard case .tcp(let standardHost, let standardPort) = standard else { return nil }
        if let port = Int(text), (1...65_535).contains(port) { return .tcp(host: standardHost, port: port) }
        guard let scheme = ["http://", "https://"].first(where: { text.hasPrefix($0) }) else { return nil }
        let authority = text.dropFirst(scheme.count).prefix { $0 != "/" }
        // The port of the URL is that of the HTTP API, so it is replaced.
        guard let host = (endpoint(authority) ?? endpoint("\(authority):1"))?.host else { return nil }
        return .tcp(host: host, port: standardPort)
    }

    /// Whether the traffic to this address crosses a network without encryption.
    package var isUnencryptedRemote: Bool {
        if case .tcp(let host, let port) = self { !SocketEndpoint(host: host, port: port).isLoopback } else { false }
    }
}
