internal import NIOConcurrencyHelpers

/// Whether a connection's client is still connected. It disconnects when it closes the connection or its side of it.
final class ClientPresence: Sendable {
    private let unreachable = NIOLockedValueBox(false)

    /// Fires when the client leaves.
    let disconnection = OneTimeEvent()

    var hasDisconnected: Bool { disconnection.hasFired }

    /// Whether the network reports the client as unreachable. The client may still be running.
    var isUnreachable: Bool { unreachable.withLockedValue { $0 } }

    func markUnreachable() { unreachable.withLockedValue { $0 = true } }
}
