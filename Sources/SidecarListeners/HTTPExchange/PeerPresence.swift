internal import NIOConcurrencyHelpers

/// Whether a connection's client is still connected. It disconnects when it closes the connection or its side of it.
final class PeerPresence: Sendable {
    private let unreachable = NIOLockedValueBox(false)

    let departure = OneTimeEvent()

    var hasLeft: Bool { departure.hasFired }

    /// Whether the network reports the client as unreachable. It may still be at work.
    var isUnreachable: Bool { unreachable.withLockedValue { $0 } }

    func markUnreachable() { unreachable.withLockedValue { $0 = true } }
}
