internal import NIOCore

/// The server that a connection has reached or tried to reach.
struct RedisArrival {
    /// The address without credentials, for messages.
    var name: String
    /// The run ID of the server's process, if it reports one. It differs after a restart, and at another server.
    var runID: String?
    var dialedAt: NIODeadline
}
