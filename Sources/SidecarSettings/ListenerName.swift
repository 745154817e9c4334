internal import InterlockHTTP

/// A listener of the sidecar.
package enum ListenerName: String, Sendable {
    case resp, http, grpc

    /// The protocols that TLS offers, the preferred one first (RFC 7301); none where the protocol has no name there.
    var protocols: [String] {
        switch self {
        case .resp: []
        case .http: HTTPProtocol.offered(withHTTP2: true)
        case .grpc: [HTTPProtocol.http2]
        }
    }
}
