internal import NIOConcurrencyHelpers

/// The presence of a connection's client, which leaves when it closes the connection or its side of it.
final class PeerPresence: Sendable {
    private let unreachable = NIOLockedValueBox(false)

    let departure = Occurrence()

    var hasLeft: Bool { departure.hasHappened }

    /// Whether the network reports the client as unreachable. It may still be at work.
    var isSilent: Bool { unreachable.withLockedValue { $0 } }

    func fallSilent() { unreachable.withLockedValue { $0 = true } }
}
