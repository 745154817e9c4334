internal import InterlockHTTP
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOSSL

/// What the doors show of themselves where they speak TLS 1.2 or 1.3. Connections that begin after a reload see the new one.
package final class DoorCertificate: Sendable {
    /// The listener that a handshake belongs to: each offers its own protocols (RFC 7301).
    enum Listener: String {
        case resp, http, grpc

        /// The first is preferred; none where the protocol has no name there.
        fileprivate var protocols: [String] {
            switch self {
            case .resp: []
            case .http: HTTPProtocol.offered(withHTTP2: true)
            case .grpc: [HTTPProtocol.http2]
            }
        }
    }

    private struct Contexts {
        var resp: NIOSSLContext
        var http: NIOSSLContext
        var grpc: NIOSSLContext

        subscript(_ listener: Listener) -> NIOSSLContext {
            switch listener {
            case .resp: resp
            case .http: http
            case .grpc: grpc
            }
        }
    }

    private let contexts: NIOLockedValueBox<Contexts>
    private let facts: NIOLockedValueBox<CertificateFacts?>

    /// - Throws: `SidecarError` when the certificate or its key cannot be used.
    package init(_ settings: TLSSettings) throws(SidecarError) {
        contexts = NIOLockedValueBox(try Self.contexts(settings))
        facts = NIOLockedValueBox(CertificateFacts(file: settings.certificate))
    }

    /// Reads the files again.
    /// - Throws: `SidecarError` when they cannot be used; then the old ones stay.
    func reload(_ settings: TLSSettings) throws(SidecarError) {
        let new = try Self.contexts(settings)
        contexts.withLockedValue { $0 = new }
        facts.withLockedValue { $0 = CertificateFacts(file: settings.certificate) }
    }

    /// The names that the certificate in force has and the one of these settings lacks.
    func namesLost(with settings: TLSSettings) -> [String] {
        guard let now = facts.withLockedValue({ $0 }), let new = CertificateFacts(file: settings.certificate) else { return [] }
        return new.names(lackingFrom: now)
    }

    private static func contexts(_ settings: TLSSettings) throws(SidecarError) -> Contexts {
        do {
            return Contexts(
                resp: try settings.context(of: .resp), http: try settings.context(of: .http),
                grpc: try settings.context(of: .grpc))
        } catch {
            throw SidecarError("listen.tls: \(error)")
        }
    }

    /// Adds TLS to a connection that was accepted by this listener.
    /// - Parameter failures: notified when the handshake fails.
    func secure(_ channel: any Channel, of listener: Listener, failures: RefusedClients) throws {
        let context = contexts.withLockedValue { $0[listener] }
        try channel.pipeline.syncOperations.addHandlers([NIOSSLServerHandler(context: context), HandshakeWatch(failures)])
    }
}

extension Channel {
    /// Closes without TLS's farewell, which waits for the client.
    func closeAtOnce() {
        if let tls = try? pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) {
            tls.close(promise: nil)
        } else {
            close(promise: nil)
        }
    }
}

extension TLSSettings {
    /// How long a close waits for the other side to agree: it is idle connections that hold up a shutdown.
    private static let shutdownTimeout = TimeAmount.seconds(1)

    /// - Throws: `SidecarError` when a file cannot be used.
    func check() throws(SidecarError) { _ = try context(of: .grpc) }

    /// - Throws: `SidecarError` when a file cannot be used.
    fileprivate func context(of listener: DoorCertificate.Listener) throws(SidecarError) -> NIOSSLContext {
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
    ///   - protocols: what a client may agree on (RFC 7301).
    ///   - clientAuthorities: one of them has to have signed a client's certificate; `nil`: it shows none.
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
