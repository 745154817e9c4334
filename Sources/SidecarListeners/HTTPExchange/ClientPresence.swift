internal import NIOConcurrencyHelpers

/// Whether a connection's client is still there. A client leaves when it closes the connection, or its side of it.
final class ClientPresence: Sendable {
    private let isMarkedUnreachable = NIOLockedValueBox(false)

    /// Fires when the client leaves.
    let disconnection = OneTimeEvent()

    /// Whether the client has left.
    var hasDisconnected: Bool { disconnection.hasFired }

    /// Whether the network reports the client as unreachable. The client may still be running.
    var isUnreachable: Bool { isMarkedUnreachable.withLockedValue { $0 } }

    func markUnreachable() { isMarkedUnreachable.withLockedValue { $0 = true } }
}
