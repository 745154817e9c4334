internal import InterlockHTTP
internal import NIOCore
package import NIOSSL

extension TLSSettings {
    /// The maximum wait for the peer's `close_notify`. Without it, idle connections would delay a shutdown.
    private static let shutdownTimeout = TimeAmount.seconds(1)

    /// Checks that all files can be used.
    /// - Throws: `SidecarError` if a file cannot be used.
    func check() throws(SidecarError) { _ = try context(of: .grpc) }

    /// Creates the TLS context of a listener.
    /// - Throws: `SidecarError` if a file cannot be used.
    package func context(of listener: ListenerName) throws(SidecarError) -> NIOSSLContext {
        // Client certificates are supported for the gRPC API only.
        guard listener == .grpc, let file = grpcClientAuthorities else {
            return try serverContext(protocols: listener.protocols)
        }
        // With an empty file, every client would be rejected, and only the clients would notice.
        guard let authorities = try? NIOSSLCertificate.fromPEMFile(file), !authorities.isEmpty else {
            throw SidecarError("\(file) contains no CA certificate in PEM format")
        }
        return try serverContext(protocols: listener.protocols, clientAuthorities: authorities)
    }

    /// Creates a TLS context for a server.
    /// - Parameters:
    ///   - protocols: the protocols offered to clients (RFC 7301).
    ///   - clientAuthorities: the authorities that may sign clients' certificates; `nil` if clients need no
    ///     certificate.
    /// - Throws: `SidecarError` if the certificate or its key cannot be used.
    private func serverContext(
        protocols: [String], clientAuthorities: [NIOSSLCertificate]? = nil
    ) throws(SidecarError) -> NIOSSLContext {
        do {
            let certificates = try NIOSSLCertificate.fromPEMFile(certificate).map { NIOSSLCertificateSource.certificate($0) }
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: certificates, privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = protocols
            if let clientAuthorities {
                configuration.trustRoots = .certificates(clientAuthorities)
                // A client's certificate does not contain its address.
                configuration.certificateVerification = .noHostnameVerification
            }
            configuration.shutdownTimeout = Self.shutdownTimeout
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw SidecarError(
                "expected a PEM certificate and its private key in \(certificate) and \(key)"
            )
        }
    }
}
