package import NIOCore

/// Receives the messages that are published on one `RedisTopology`, and the invalidations of the keys tracked there.
/// Confined to its event loop.
package protocol RedisReceiver: AnyObject {
    /// Called with each message: the channel and the payload.
    var onMessage: ((_ channel: String, _ payload: [UInt8]) -> Void)? { get set }
    /// Called with the tracked keys that have changed, or with `nil` if all of them may have changed.
    var onInvalidated: ((_ keys: [String]?) -> Void)? { get set }
    /// Called when all channels are subscribed: the first time, and after each loss.
    var onSubscribed: (() -> Void)? { get set }
    /// Called with the client ID of this connection once other connections can redirect their tracking to it.
    var onReceivingInvalidations: ((_ clientID: Int64, _ server: RedisConfiguration.Address) -> Void)? { get set }
    /// Called when the connection to a server is lost, an attempt fails, or the server refuses a subscription.
    var onDown: ((_ error: RedisError, _ server: RedisConfiguration.Address) -> Void)? { get set }

    /// Whether all channels are subscribed.
    var isSubscribed: Bool { get }

    /// Connects, and keeps the subscriptions up until `close`.
    func start()
    /// Ends the subscriptions permanently.
    func close() -> EventLoopFuture<Void>

    /// Subscribes to a shard channel at the server of its hash slot, or unsubscribes from it. Does nothing on a single
    /// server, which has no shard channels.
    func subscribe(shardChannel channel: String, _ shouldSubscribe: Bool)
}
