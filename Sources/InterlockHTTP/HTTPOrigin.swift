internal import NIOCore
package import NIOSSL

/// A server that requests are sent to: its address and its protocols.
package struct HTTPOrigin: Sendable {
    /// The host to connect to, which the server's certificate must name; an IPv6 address without brackets.
    package let host: String
    package let port: Int
    /// The TLS settings; `nil` for plaintext.
    package let tls: NIOSSLContext?
    /// Whether HTTP/2 is offered over TLS, or known to be spoken over plaintext.
    package let speaksHTTP2: Bool

    /// Creates an origin.
    /// - Parameter tls: a context that `clientTLS` returned for the same `speaksHTTP2`; `nil` for plaintext.
    package init(host: String, port: Int, tls: NIOSSLContext?, speaksHTTP2: Bool = false) {
        self.host = host
        self.port = port
        self.tls = tls
        self.speaksHTTP2 = speaksHTTP2
    }

    /// The value of the `Host` field.
    package var authority: String { Self.authority(host: host, port: port, isTLS: tls != nil) }

    /// Returns the host, and the port unless it is the scheme's standard port.
    /// - Parameter host: a name or an address; an IPv6 address has no brackets.
    package static func authority(host: String, port: Int, isTLS: Bool) -> String {
        let host = host.contains(":") ? "[\(host)]" : host
        return port == standardPort(isTLS: isTLS) ? host : "\(host):\(port)"
    }

    package static func standardPort(isTLS: Bool) -> Int { isTLS ? 443 : 80 }

    /// Returns a client's TLS settings: TLS 1.2 or later, with a check that the server's certificate is trusted and
    /// names the server.
    /// - Parameter certificateAuthority: a PEM file of trusted certificates; `nil` for those that the system trusts.
    /// - Throws: `NIOSSLError` if the file cannot be used.
    package static func clientTLS(certificateAuthority: String?, speaksHTTP2: Bool = false) throws -> NIOSSLContext {
        guard let certificateAuthority else {
            return try speaksHTTP2 ? trustingSystemWithHTTP2.get() : trustingSystem.get()
        }
        return try clientTLS(trusting: .file(certificateAuthority), speaksHTTP2: speaksHTTP2)
    }

    /// A context shared by all origins, because the system's certificates take time and memory to load.
    private static let trustingSystem = Result { try clientTLS(trusting: .default, speaksHTTP2: false) }
    private static let trustingSystemWithHTTP2 = Result { try clientTLS(trusting: .default, speaksHTTP2: true) }

    private static func clientTLS(trusting roots: NIOSSLTrustRoots, speaksHTTP2: Bool) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = HTTPProtocol.offered(withHTTP2: speaksHTTP2)
        configuration.trustRoots = roots
        return try NIOSSLContext(configuration: configuration)
    }

    /// Adds TLS to a connection's pipeline if this origin uses it.
    func secure(_ channel: any Channel) throws {
        guard let tls else { return }
        // An IP address is not allowed as a server name (RFC 6066, section 3). The certificate is still checked.
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        try channel.pipeline.syncOperations.addHandler(
            NIOSSLClientHandler(context: tls, serverHostname: isAddress ? nil : host))
    }
}
