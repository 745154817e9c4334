internal import NIOCore

/// The connections of one listener. Confined to the coordinator's event loop.
protocol ListenerContext: AnyObject, SendableMetatype {
    var connectionCount: Int { get }
    /// The handlers that the listening socket needs for this API.
    var listenerHandlers: [any ChannelHandler] { get }

    /// Serves an accepted connection. If the listener is full, first closes the connection of an unidentified client.
    /// If that frees no slot, refuses the connection or serves it in a reserve slot.
    func serve(_ channel: any Channel, _ origin: ConnectionOrigin) throws
    /// Claims a reserved file descriptor for a connection.
    /// - Returns: `false` if the connection may not use it and must be closed.
    func claimReservedDescriptor(_ channel: any Channel) -> Bool
    /// Closes the oldest connection of an unidentified client, if it may be evicted.
    func makeRoom()
    /// Ends the calls and connections of callers whose keys were removed. Called after each change of the keys.
    func checkCallers()
    /// Stops accepting calls. Connections close once their calls are answered.
    func shutDown()
}

extension ListenerContext {
    var listenerHandlers: [any ChannelHandler] { [] }
    func claimReservedDescriptor(_ channel: any Channel) -> Bool { false }
}
