internal import NIOCore

/// The connections of one listener. Confined to the coordinator's event loop.
protocol ListenerContext: AnyObject, SendableMetatype {
    var connectionCount: Int { get }
    /// The handlers that the listening socket needs for this API.
    var listenerHandlers: [any ChannelHandler] { get }

    /// Serves an accepted connection. Over the limit, evicts an unauthenticated client, refuses the connection, or
    /// serves it from a reserve.
    func serve(_ channel: any Channel, _ arrival: Arrival) throws
    /// Claims a reserved file descriptor for a connection. Returns `false` if none may be used.
    func takesFromReserve(_ channel: any Channel) -> Bool
    /// Closes the connection whose client has been unknown the longest.
    func makeRoom()
    /// Ends everything that callers with removed keys have open, after the keys have changed.
    func checkCallers()
    /// Stops accepting calls. Connections close once their calls are answered.
    func goDown()
}

extension ListenerContext {
    var listenerHandlers: [any ChannelHandler] { [] }
    func takesFromReserve(_ channel: any Channel) -> Bool { false }
}

/// How a connection reached its listener.
package struct Arrival {
    /// The TLS settings of one listener.
    struct Handshake: Sendable {
        let certificate: DoorCertificate
        let listener: DoorCertificate.Listener
        let failures: RefusedClients
    }

    /// Whether the connection came by the Unix socket.
    var isLocal = false
    /// Whether the connection has a reserved descriptor.
    var isFromReserve = false
    /// `nil` for plain text.
    var handshake: Handshake?

    /// Adds the handlers of TLS, which take the client's turns, to a connection that begins with a handshake.
    func secure(_ channel: any Channel, _ turn: ClientTurn) throws {
        guard let handshake else { return }
        try channel.pipeline.syncOperations.addHandler(TurnGate(turn, .handshake))
        try handshake.certificate.secure(channel, of: handshake.listener, failures: handshake.failures)
    }
}
