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
    /// - Throws: `Failure` without the API key that a user may have put into the address.
    package static func read(_ text: String, from name: String) throws(Failure) -> SidecarAddress {
        if let address = SidecarAddress(argument: text) { return address }
        let remedy = text.contains("@") ? "; put an API key in INTERLOCK_API_KEY" : ""
        throw Failure(
            "\(name): expected HOST:PORT such as \(standard), redis://HOST:PORT, rediss://HOST:PORT or unix:PATH; got "
                + "\"\(RedactedURL(text))\"\(remedy)",
            .usage)
    }

    /// Whether others can read the traffic to this address.
    package var isOpenToOthers: Bool {
        if case .tcp(let host, let port) = self { !SocketEndpoint(host: host, port: port).isLoopback } else { false }
    }
}
