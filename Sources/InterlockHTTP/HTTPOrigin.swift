internal import NIOCore
package import NIOSSL

/// A server that requests are sent to: its address, and how it is spoken to.
package struct HTTPOrigin: Sendable {
    /// As it is dialled, and as its certificate must name it; an IPv6 address without brackets.
    package let host: String
    package let port: Int
    /// `nil`: in the clear.
    package let tls: NIOSSLContext?
    /// With TLS, where the server speaks it too; in the clear, it is known to.
    package let speaksHTTP2: Bool

    /// - Parameter tls: of `clientTLS`, with the same `speaksHTTP2`.
    package init(host: String, port: Int, tls: NIOSSLContext?, speaksHTTP2: Bool = false) {
        self.host = host
        self.port = port
        self.tls = tls
        self.speaksHTTP2 = speaksHTTP2
    }

    /// What the `Host` field says.
    package var authority: String { Self.authority(host: host, port: port, isTLS: tls != nil) }

    /// - Parameter host: an IPv6 address without brackets.
    package static func authority(host: String, port: Int, isTLS: Bool) -> String {
        let host = host.contains(":") ? "[\(host)]" : host
        return port == standardPort(isTLS: isTLS) ? host : "\(host):\(port)"
    }

    package static func standardPort(isTLS: Bool) -> Int { isTLS ? 443 : 80 }

    /// What a client asks of TLS: 1.2 at least, and a certificate that it trusts for this name.
    /// - Parameter certificateAuthority: a file of certificates in PEM; `nil`: those the system trusts.
    /// - Throws: `NIOSSLError` when the file cannot be used.
    package static func clientTLS(certificateAuthority: String?, speaksHTTP2: Bool = false) throws -> NIOSSLContext {
        guard let certificateAuthority else {
            return try speaksHTTP2 ? trustingSystemWithHTTP2.get() : trustingSystem.get()
        }
        return try clientTLS(trusting: .file(certificateAuthority), speaksHTTP2: speaksHTTP2)
    }

    /// One for all: the system's certificates take a moment to read, and memory.
    private static let trustingSystem = Result { try clientTLS(trusting: .default, speaksHTTP2: false) }
    private static let trustingSystemWithHTTP2 = Result { try clientTLS(trusting: .default, speaksHTTP2: true) }

    private static func clientTLS(trusting roots: NIOSSLTrustRoots, speaksHTTP2: Bool) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = HTTPProtocol.offered(withHTTP2: speaksHTTP2)
        configuration.trustRoots = roots
        return try NIOSSLContext(configuration: configuration)
    }

    /// Puts TLS between a connection's bytes and their meaning, where this origin speaks it.
    func secure(_ channel: any Channel) throws {
        guard let tls else { return }
        // An address is no name that a server is asked for (RFC 6066, section 3); its certificate is checked all the same.
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        try channel.pipeline.syncOperations.addHandler(
            NIOSSLClientHandler(context: tls, serverHostname: isAddress ? nil : host))
    }
}
