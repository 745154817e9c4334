internal import NIOCore
internal import SidecarSettings

/// How a connection reached its listener.
package struct ConnectionOrigin {
    /// The TLS settings of one listener.
    struct Handshake: Sendable {
        let certificate: ListenerCertificate
        let listener: ListenerName
        let failures: RefusedClients
    }

    /// Whether the connection arrived on the Unix socket.
    var isLocal = false
    /// Whether the connection has a reserved descriptor.
    var usesReservedDescriptor = false
    /// `nil` for plain text.
    var handshake: Handshake?

    /// Adds the TLS handlers, which run in the client's slices, if the connection begins with a handshake.
    func secure(_ channel: any Channel, _ slices: ConnectionSlices) throws {
        guard let handshake else { return }
        try channel.pipeline.syncOperations.addHandler(SliceGate(slices, .handshake))
        try handshake.certificate.secure(channel, of: handshake.listener, failures: handshake.failures)
    }
}
