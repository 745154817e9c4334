import RedisClient

/// A client's connection to a sidecar, over which it sends commands. Replies arrive in the order of the commands.
protocol ClientConnection: AnyObject {
    /// Receives messages that answer no command.
    var onPush: ([RedisReply]) -> Void { get set }
    /// Runs when the connection is lost, but not when this side closes it.
    var onLost: () -> Void { get set }
    var isOpen: Bool { get }
    var isClosed: Bool { get }

    /// Sends a command. Calls `completion` once.
    func send(_ arguments: [String], completion: @escaping (Result<RedisReply, ClientLoss>) -> Void)
    /// Sends all commands of `body` in one write.
    func sendTogether(_ body: () -> Void)
    /// Drops all calls, because the client can no longer match replies to its commands.
    func giveUpOnReplies()
    /// Closes this end, even if commands are pending.
    func close()
}

/// The reason why a command has no reply.
enum ClientLoss: Error {
    /// The command was never sent.
    case notConnected
    /// The command may have been executed.
    case responseLost
}

/// The protocol that a client speaks.
enum ClientProtocol {
    case resp2, resp3, http
}
