internal import InterlockHTTP
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOSSL
package import SidecarSettings

/// The TLS certificate of the listeners, for TLS 1.2 and 1.3. Connections that begin after a reload use the new one.
package final class ListenerCertificate: Sendable {
    private struct Contexts {
        var resp: NIOSSLContext
        var http: NIOSSLContext
        var grpc: NIOSSLContext

        subscript(_ listener: ListenerName) -> NIOSSLContext {
            switch listener {
            case .resp: resp
            case .http: http
            case .grpc: grpc
            }
        }
    }

    private let contexts: NIOLockedValueBox<Contexts>
    private let facts: NIOLockedValueBox<CertificateFacts?>

    /// Reads the certificate and its key.
    /// - Throws: `SidecarError` if they cannot be used.
    package init(_ settings: TLSSettings) throws(SidecarError) {
        contexts = NIOLockedValueBox(try Self.contexts(settings))
        facts = NIOLockedValueBox(CertificateFacts(file: settings.certificate))
    }

    /// Reads the files again.
    /// - Throws: `SidecarError` if they cannot be used; the old certificate then stays in use.
    package func reload(_ settings: TLSSettings) throws(SidecarError) {
        let newContexts = try Self.contexts(settings)
        contexts.withLockedValue { $0 = newContexts }
        facts.withLockedValue { $0 = CertificateFacts(file: settings.certificate) }
    }

    /// Returns the names of the current certificate that are missing from the one in these settings.
    package func namesLost(with settings: TLSSettings) -> [String] {
        guard let current = facts.withLockedValue({ $0 }),
            let replacement = CertificateFacts(file: settings.certificate)
        else { return [] }
        return replacement.names(missingComparedTo: current)
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
    /// - Parameter failures: counts the handshake if it fails.
    func secure(_ channel: any Channel, of listener: ListenerName, failures: RefusedClients) throws {
        let context = contexts.withLockedValue { $0[listener] }
        try channel.pipeline.syncOperations.addHandlers([NIOSSLServerHandler(context: context), HandshakeWatch(failures)])
    }
}

extension Channel {
    /// Closes the connection without the closing exchange of TLS, which would wait for the client.
    func closeImmediately() {
        if let tls = try? pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) {
            tls.close(promise: nil)
        } else {
            close(promise: nil)
        }
    }
}
