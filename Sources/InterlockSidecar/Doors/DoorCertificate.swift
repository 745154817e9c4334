internal import InterlockHTTP
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOSSL

/// What the doors show of themselves where they speak TLS 1.2 or 1.3. Connections that begin after a reload see the new one.
package final class DoorCertificate: Sendable {
    private struct Contexts {
        var grpc: NIOSSLContext
        var other: NIOSSLContext
    }

    private let contexts: NIOLockedValueBox<Contexts>

    /// - Throws: `SidecarError` when the certificate or its key cannot be used.
    package init(_ settings: TLSSettings) throws(SidecarError) {
        contexts = NIOLockedValueBox(try Self.contexts(settings))
    }

    /// Reads the files again.
    /// - Throws: `SidecarError` when they cannot be used; then the old ones stay.
    func reload(_ settings: TLSSettings) throws(SidecarError) {
        let new = try Self.contexts(settings)
        contexts.withLockedValue { $0 = new }
    }

    private static func contexts(_ settings: TLSSettings) throws(SidecarError) -> Contexts {
        do {
            return Contexts(grpc: try settings.grpcContext(), other: try settings.serverContext())
        } catch {
            throw SidecarError("listen.tls: \(error)")
        }
    }

    /// Puts TLS between a connection's bytes and their meaning.
    func secure(_ channel: any Channel, forGRPC: Bool = false) throws {
        let contexts = contexts.withLockedValue { $0 }
        try channel.pipeline.syncOperations.addHandler(
            NIOSSLServerHandler(context: forGRPC ? contexts.grpc : contexts.other))
    }
}

extension TLSSettings {
    /// How long a close waits for the other side to agree: it is idle connections that hold up a shutdown.
    private static let shutdownTimeout = TimeAmount.seconds(1)

    /// - Throws: `SidecarError` when a file cannot be used.
    func check() throws(SidecarError) { _ = try grpcContext() }

    /// For the gRPC door, whose clients may have to show a certificate.
    fileprivate func grpcContext() throws(SidecarError) -> NIOSSLContext {
        guard let file = grpcClientAuthorities else { return try serverContext(protocols: [HTTPProtocol.http2]) }
        // One that is empty would let nobody in, and tell only them.
        guard let authorities = try? NIOSSLCertificate.fromPEMFile(file), !authorities.isEmpty else {
            throw SidecarError("expected certificates of authorities in PEM; what stands in \(file) is none")
        }
        return try serverContext(protocols: [HTTPProtocol.http2], clientAuthorities: authorities)
    }

    /// - Parameters:
    ///   - protocols: what a client may agree on (RFC 7301).
    ///   - clientAuthorities: one of them has to have signed a client's certificate; `nil`: it shows none.
    /// - Throws: `SidecarError` when the certificate or its key cannot be used.
    fileprivate func serverContext(
        protocols: [String] = ["http/1.1"], clientAuthorities: [NIOSSLCertificate]? = nil
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
