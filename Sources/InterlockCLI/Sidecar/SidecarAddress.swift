import ArgumentParser
import Hiredis
import InterlockSidecar

/// Where a sidecar's RESP door is.
enum SidecarAddress: ExpressibleByArgument, Hashable, Sendable, CustomStringConvertible {
    case endpoint(SocketEndpoint)
    /// The same, behind TLS.
    case secured(SocketEndpoint)
    case unixSocket(path: String)

    /// Where a sidecar listens that nobody told otherwise.
    static let standard = SidecarAddress.endpoint(ListenSettings().resp)

    private static let unixPrefix = "unix:"
    private static let securedPrefix = "rediss://"

    /// `HOST:PORT`, `rediss://HOST:PORT` or `unix:PATH`.
    init?(argument: String) {
        if argument.hasPrefix(Self.unixPrefix) {
            let path = argument.dropFirst(Self.unixPrefix.count)
            guard !path.isEmpty else { return nil }
            self = .unixSocket(path: String(path))
        } else if argument.hasPrefix(Self.securedPrefix) {
            guard let endpoint = Self.endpoint(String(argument.dropFirst(Self.securedPrefix.count))) else { return nil }
            self = .secured(endpoint)
        } else {
            guard let endpoint = Self.endpoint(argument) else { return nil }
            self = .endpoint(endpoint)
        }
    }

    private static func endpoint(_ text: String) -> SocketEndpoint? {
        guard let endpoint = try? SocketEndpoint(parsing: text), endpoint.port > 0 else { return nil }
        return endpoint
    }

    /// What is sent there can be read by others on the way.
    var isOpenToOthers: Bool {
        if case .endpoint(let endpoint) = self { !endpoint.isLoopback } else { false }
    }

    var description: String {
        switch self {
        case .endpoint(let endpoint): endpoint.description
        case .secured(let endpoint): Self.securedPrefix + endpoint.description
        case .unixSocket(let path): Self.unixPrefix + path
        }
    }

    var defaultValueDescription: String { description }

    /// The same for a Redis client.
    var redisAddress: RedisConfiguration.Address {
        switch self {
        case .endpoint(let endpoint), .secured(let endpoint): .host(endpoint.host, port: endpoint.port)
        case .unixSocket(let path): .unixSocket(path: path)
        }
    }
}
