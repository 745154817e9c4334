public import ArgumentParser
package import InterlockClient
import InterlockSidecar

extension SidecarAddress: ExpressibleByArgument {
    private static let unixPrefix = "unix:"
    private static let tlsPrefix = "rediss://"

    /// `HOST:PORT`, `rediss://HOST:PORT` or `unix:PATH`.
    package init?(argument: String) {
        if argument.hasPrefix(Self.unixPrefix) {
            let path = argument.dropFirst(Self.unixPrefix.count)
            guard !path.isEmpty else { return nil }
            self = .unixSocket(path: String(path))
        } else if argument.hasPrefix(Self.tlsPrefix) {
            guard let endpoint = Self.endpoint(argument.dropFirst(Self.tlsPrefix.count)) else { return nil }
            self = .tls(host: endpoint.host, port: endpoint.port)
        } else {
            guard let endpoint = Self.endpoint(argument[...]) else { return nil }
            self = .tcp(host: endpoint.host, port: endpoint.port)
        }
    }

    package var defaultValueDescription: String { description }

    private static func endpoint(_ text: Substring) -> SocketEndpoint? {
        guard let endpoint = try? SocketEndpoint(parsing: String(text)), endpoint.port > 0 else { return nil }
        return endpoint
    }

    /// Whether others can read on the way what is sent there.
    package var isOpenToOthers: Bool {
        if case .tcp(let host, let port) = self { !SocketEndpoint(host: host, port: port).isLoopback } else { false }
    }
}
