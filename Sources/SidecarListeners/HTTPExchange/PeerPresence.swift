internal import NIOConcurrencyHelpers

/// The presence of a connection's client, which leaves when it closes the connection or its side of it.
final class PeerPresence: Sendable {
    private let silence = NIOLockedValueBox(false)

    let departure = Occurrence()

    var hasLeft: Bool { departure.hasHappened }

    /// Whether the network reports the client as unreachable. It may still be at work.
    var isSilent: Bool { silence.withLockedValue { $0 } }

    func fallSilent() { silence.withLockedValue { $0 = true } }
}
