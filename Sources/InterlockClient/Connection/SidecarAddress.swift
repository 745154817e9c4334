internal import RedisClient

/// The address of a sidecar's RESP API.
public enum SidecarAddress: Hashable, Sendable, CustomStringConvertible {
    /// TCP without encryption.
    case tcp(host: String, port: Int)
    /// TCP with TLS. The certificate is verified against `host`.
    case tls(host: String, port: Int)
    /// A Unix socket on this host.
    case unixSocket(path: String)

    /// The default address of a sidecar: 127.0.0.1:7379.
    public static let standard = SidecarAddress.tcp(host: "127.0.0.1", port: 7379)

    /// The address as `HOST:PORT`, `rediss://HOST:PORT` or `unix:PATH`.
    public var description: String {
        switch self {
        case .tcp(let host, let port): Self.hostAndPort(host, port)
        case .tls(let host, let port): "rediss://" + Self.hostAndPort(host, port)
        case .unixSocket(let path): "unix:" + path
        }
    }

    /// The port; `nil` for a Unix socket.
    var port: Int? {
        switch self {
        case .tcp(_, let port), .tls(_, let port): port
        case .unixSocket: nil
        }
    }

    private static func hostAndPort(_ host: String, _ port: Int) -> String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
