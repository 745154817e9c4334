package import NIOCore

/// Sends commands to one Redis: over one connection, or over one to each primary of a cluster. Confined to its event loop.
package protocol RedisSender: AnyObject {
    /// Called with each connection that is up and logged in: the first time, and after each loss.
    var onUp: ((RedisPipeline) -> Void)? { get set }
    /// Called when a connection is lost or an attempt fails; the next attempt is already planned.
    var onDown: ((RedisError) -> Void)? { get set }
    /// Called once per read from the wire with the time its oldest answered command took.
    var onRoundTrip: ((TimeAmount) -> Void)? { get set }

    /// Whether some keys can be reached.
    var isUp: Bool { get }
    /// Whether every key can be reached.
    var isWhole: Bool { get }
    /// Whether this key can be reached.
    func reaches(_ key: String) -> Bool
    /// Why not every key can be reached, while that is so.
    var lastFailure: RedisError? { get }
    /// See `RedisPipeline`.
    var recentRefusal: RedisError? { get }
    /// See `RedisPipeline`.
    var refusals: Int64 { get }
    /// How many commands were sent since the start.
    var commandsSent: Int64 { get }
    /// How many commands await their reply.
    var awaited: Int { get }
    /// The connections, one to each server that keys are on, in an order that stays while the servers do.
    var connections: [RedisPipeline] { get }
    /// Within a completion: the connection that the reply came over.
    var answering: RedisPipeline? { get }

    /// Calls `done` when everything that was sent before has been answered, or cannot be any more.
    func settle(then done: @escaping () -> Void)
    /// Begins to connect and keeps connected until `close`.
    func start()
    /// Ends the connections for good; what is pending fails.
    func close() -> EventLoopFuture<Void>

    /// Sends `command`; `completion` is called exactly once, on the event loop, possibly before this returns. Sends a
    /// script by its digest, and again with its source if the server does not know it.
    func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void)
}

extension RedisSender {
    package func send<Command: RedisCommand>(
        _ command: Command, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        send(command, timeout: nil, completion: completion)
    }

    package func settle(then done: @escaping () -> Void) { Self.settle(connections, then: done) }

    static func settle(_ connections: [RedisPipeline], then done: @escaping () -> Void) {
        guard !connections.isEmpty else { return done() }
        var left = connections.count
        for connection in connections {
            connection.send(Ping()) { _ in
                left -= 1
                if left == 0 { done() }
            }
        }
    }
}
