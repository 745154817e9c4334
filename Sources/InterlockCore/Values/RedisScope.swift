/// The hosts that can share a sidecar's Redis, judging by its address.
package enum RedisScope: String, Sendable {
    /// A Redis that the sidecar started for itself, so that locks and limits apply to this host only.
    case host
    /// A loopback address or a Unix socket. Other hosts share this Redis only if they reach it by another address, or
    /// if the address is that of a local proxy.
    case loopback
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
