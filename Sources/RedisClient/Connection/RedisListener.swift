package import NIOCore

/// Hears what one Redis publishes, and which keys that are tracked there were changed. Confined to its event loop.
package protocol RedisListener: AnyObject {
    /// Called with each message: the channel and the payload.
    var onMessage: ((_ channel: String, _ payload: [UInt8]) -> Void)? { get set }
    /// Called with the keys that were changed, of those that are tracked for it; `nil`: all of them.
    var onInvalidated: ((_ keys: [String]?) -> Void)? { get set }
    /// Called when all channels are subscribed: the first time, and after each loss.
    var onSubscribed: (() -> Void)? { get set }
    /// Called when tracking at a server can be redirected here, with what that server calls this connection.
    var onHearingInvalidations: ((_ client: Int64, _ server: RedisConfiguration.Address) -> Void)? { get set }
    /// Called when the connection to a server is lost, an attempt fails, or it refuses a subscription.
    var onDown: ((_ error: RedisError, _ server: RedisConfiguration.Address) -> Void)? { get set }

    /// Whether all channels are subscribed.
    var isFollowing: Bool { get }

    func start()
    func close() -> EventLoopFuture<Void>

    /// Hears a channel of a slot at the server that has it, or does so no more. On a single server, which has none, nothing.
    func hear(shardChannel channel: String, _ isHeard: Bool)
}
