internal import NIOCore

/// The server that a connection has reached or tried to reach.
struct DialedServer {
    /// The address without credentials, for messages.
    var name: String
    /// The run ID of the server process, which a restart changes; `nil` if the server does not report it.
    var runID: String?
    var dialedAt: NIODeadline
}
