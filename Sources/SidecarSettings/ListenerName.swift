internal import InterlockHTTP

/// A listener of the sidecar.
package enum ListenerName: String, Sendable {
    case resp, http, grpc

    /// The protocols that TLS offers, in order of preference (RFC 7301). RESP has no registered name.
    var protocols: [String] {
        switch self {
        case .resp: []
        case .http: HTTPProtocol.offered(withHTTP2: true)
        case .grpc: [HTTPProtocol.http2]
        }
    }
}
