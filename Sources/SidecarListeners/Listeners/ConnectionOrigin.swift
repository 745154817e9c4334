internal import NIOCore
internal import SidecarSettings

/// How a connection reached its listener.
package struct ConnectionOrigin {
    /// The TLS handshake of one listener's connections.
    struct Handshake: Sendable {
        let certificate: ListenerCertificate
        let listener: ListenerName
        let failures: RefusedClients
    }

    /// Whether the connection arrived on the Unix socket.
    var isLocal = false
    /// Whether the connection uses one of the reserved file descriptors.
    var usesReservedDescriptor = false
    /// The TLS handshake with which the connection begins; `nil` for plaintext.
    var handshake: Handshake?

    /// Adds the TLS handlers, which run in the client's slices, if the connection begins with a handshake.
    func secure(_ channel: any Channel, _ slices: ConnectionSlices) throws {
        guard let handshake else { return }
        try channel.pipeline.syncOperations.addHandler(SliceGate(slices, .handshake))
        try handshake.certificate.secure(channel, of: handshake.listener, failures: handshake.failures)
    }
}
