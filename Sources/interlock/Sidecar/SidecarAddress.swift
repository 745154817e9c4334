import ArgumentParser
import Hiredis
import InterlockSidecar

/// Where a sidecar's RESP door is.
enum SidecarAddress: ExpressibleByArgument, Hashable, Sendable, CustomStringConvertible {
    case endpoint(SocketEndpoint)
    case unixSocket(path: String)

    /// Where a sidecar listens that nobody told otherwise.
    static let standard = SidecarAddress.endpoint(ListenSettings().resp)

    private static let unixPrefix = "unix:"

    /// `HOST:PORT` or `unix:PATH`.
    init?(argument: String) {
        if argument.hasPrefix(Self.unixPrefix) {
            let path = argument.dropFirst(Self.unixPrefix.count)
            guard !path.isEmpty else { return nil }
            self = .unixSocket(path: String(path))
        } else {
            guard let endpoint = try? SocketEndpoint(parsing: argument), endpoint.port > 0 else { return nil }
            self = .endpoint(endpoint)
        }
    }

    var description: String {
        switch self {
        case .endpoint(let endpoint): endpoint.description
        case .unixSocket(let path): Self.unixPrefix + path
        }
    }

    var defaultValueDescription: String { description }

    /// The same for a Redis client.
    var redisAddress: RedisConfiguration.Address {
        switch self {
        case .endpoint(let endpoint): .host(endpoint.host, port: endpoint.port)
        case .unixSocket(let path): .unixSocket(path: path)
        }
    }
}
