package import NIOCore

/// Sends commands over one connection to a server, or over one connection to each primary of a cluster. Confined to its
/// event loop.
package protocol RedisSender: AnyObject {
    /// Called with each connection that is up and logged in: the first time, and after each loss.
    var onUp: ((RedisPipeline) -> Void)? { get set }
    /// Called when a connection is lost or an attempt fails, with the next attempt already scheduled.
    var onDown: ((RedisError) -> Void)? { get set }
    /// Called once per read from the wire with the round-trip time of the oldest command that it answers.
    var onRoundTrip: ((TimeAmount) -> Void)? { get set }

    /// Whether any key can be reached.
    var isUp: Bool { get }
    /// Whether every key can be reached.
    var reachesAllKeys: Bool { get }
    /// Whether this key can be reached.
    func reaches(_ key: String) -> Bool
    /// The reason that some keys cannot be reached; `nil` if all keys can be reached or no attempt has failed yet.
    var lastFailure: RedisError? { get }
    /// The last refusal; see `RedisPipeline.recentRefusal`.
    var recentRefusal: RedisError? { get }
    /// The number of refusals; see `RedisPipeline.refusalCount`.
    var refusalCount: Int64 { get }
    /// The number of commands sent since the start.
    var sentCommandCount: Int64 { get }
    /// The number of commands in flight.
    var pendingCount: Int { get }
    /// The connections, one to each server that stores keys, in a stable order.
    var connections: [RedisPipeline] { get }
    /// While a completion runs, the connection on which its reply arrived.
    var replyingConnection: RedisPipeline? { get }

    /// Calls `done` once every command sent earlier has been answered or has failed.
    func drain(then done: @escaping () -> Void)
    /// Connects, and keeps the connections up until `close`.
    func start()
    /// Closes the connections permanently and fails pending commands.
    func close() -> EventLoopFuture<Void>

    /// Sends `command`. Calls `completion` exactly once, on the event loop, possibly before this method returns. Sends
    /// a script by its digest, and again with its source if the server does not know it.
    func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void)
}

extension RedisSender {
    package func send<Command: RedisCommand>(
        _ command: Command, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        send(command, timeout: nil, completion: completion)
    }

    package func drain(then done: @escaping () -> Void) { Self.drain(connections, then: done) }

    static func drain(_ connections: [RedisPipeline], then done: @escaping () -> Void) {
        guard !connections.isEmpty else { return done() }
        var unansweredCount = connections.count
        for connection in connections {
            connection.send(Ping()) { _ in
                unansweredCount -= 1
                if unansweredCount == 0 { done() }
            }
        }
    }
}
