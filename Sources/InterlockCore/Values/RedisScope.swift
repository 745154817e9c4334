/// The set of hosts that can share a sidecar's Redis server, judging by the server's address.
package enum RedisScope: String, Sendable {
    /// The sidecar started the Redis server for its own use, so locks and limits apply to this host only.
    case host
    /// The address is a loopback address or a Unix socket. Other hosts share the server only if they reach it by
    /// another address, or if the address is that of a local proxy.
    case loopback
    /// The address is reachable from other hosts.
    case network

    /// A human-readable warning; `nil` if there is nothing to warn of.
    package var notice: String? {
        switch self {
        case .host: "private Redis: this host only"
        case .loopback: "Redis at a loopback address: this host only, unless other hosts reach it by another address"
        case .network: nil
        }
    }
}
