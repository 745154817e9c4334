internal import NIOCore

/// The connections of one listener. Confined to the coordinator's event loop.
protocol ListenerContext: AnyObject, SendableMetatype {
    var connectionCount: Int { get }
    /// The handlers that the listening socket needs for this API.
    var listenerHandlers: [any ChannelHandler] { get }

    /// Serves an accepted connection. Over the limit, evicts an unauthenticated client, refuses the connection, or
    /// serves it from a reserve.
    func serve(_ channel: any Channel, _ origin: ConnectionOrigin) throws
    /// Claims a reserved file descriptor for a connection. Returns `false` if none may be used.
    func claimReservedDescriptor(_ channel: any Channel) -> Bool
    /// Closes the oldest connection whose client is still unknown.
    func makeRoom()
    /// Ends everything that callers with removed keys have open, after the keys have changed.
    func checkCallers()
    /// Stops accepting calls. Connections close once their calls are answered.
    func shutDown()
}

extension ListenerContext {
    var listenerHandlers: [any ChannelHandler] { [] }
    func claimReservedDescriptor(_ channel: any Channel) -> Bool { false }
}
