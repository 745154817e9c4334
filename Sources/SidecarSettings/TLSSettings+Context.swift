internal import InterlockHTTP
internal import NIOCore
package import NIOSSL

extension TLSSettings {
    /// The longest wait for the peer's half of a TLS close. Idle connections would hold up a shutdown otherwise.
    private static let shutdownTimeout = TimeAmount.seconds(1)

    /// - Throws: `SidecarError` when a file cannot be used.
    func check() throws(SidecarError) { _ = try context(of: .grpc) }

    /// - Throws: `SidecarError` when a file cannot be used.
    package func context(of listener: ListenerName) throws(SidecarError) -> NIOSSLContext {
        // Clients of the gRPC API may have to show a certificate.
        guard listener == .grpc, let file = grpcClientAuthorities else {
            return try serverContext(protocols: listener.protocols)
        }
        // An empty file would refuse every client, and only the clients would notice.
        guard let authorities = try? NIOSSLCertificate.fromPEMFile(file), !authorities.isEmpty else {
            throw SidecarError("expected certificates of authorities in PEM; what stands in \(file) is none")
        }
        return try serverContext(protocols: listener.protocols, clientAuthorities: authorities)
    }

    /// - Parameters:
    ///   - protocols: the protocols that are offered to clients (RFC 7301).
    ///   - clientAuthorities: the authorities that may sign clients' certificates; `nil` if clients need none.
    /// - Throws: `SidecarError` when the certificate or its key cannot be used.
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
                // A client's address is not in its certificate.
                configuration.certificateVerification = .noHostnameVerification
            }
            configuration.shutdownTimeout = Self.shutdownTimeout
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw SidecarError(
                "expected a certificate and its key in PEM; what stands in \(certificate) and \(key) is none, or they are not of one pair"
            )
        }
    }
}
