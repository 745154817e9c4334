package import Logging
package import NIOCore
internal import RedisClient

/// A dedicated connection that follows a sidecar's events, for callers on its event loop. The connection reconnects
/// until `close`.
///
/// Confined to its event loop: every member must be called on it. Other callers use `SidecarClient.events`.
package final class SidecarSubscription {
    private let subscriber: RedisSubscriber

    /// Called when the sidecar confirms the subscription. No event is missed from then until `onDown`.
    package var onFollowing: (() -> Void)?
    /// Called with each event, as one line of JSON.
    package var onEvent: (([UInt8]) -> Void)?
    /// Called when the connection is lost, an attempt fails, or the sidecar rejects the subscription. The next attempt
    /// is already scheduled.
    package var onDown: ((InterlockError) -> Void)?

    package init(
        _ configuration: SidecarClientConfiguration, channel: String, eventLoop: any EventLoop, logger: Logger
    ) {
        subscriber = RedisSubscriber(
            configuration: configuration.redisConfiguration, channels: [channel],
            environment: RedisEnvironment(eventLoop: eventLoop, logger: logger))
        subscriber.onSubscribed = { [weak self] in self?.onFollowing?() }
        subscriber.onMessage = { [weak self] _, payload in self?.onEvent?(payload) }
        subscriber.onDown = { [weak self] error, _ in self?.onDown?(InterlockError(error, configuration)) }
    }

    package func start() {
        subscriber.start()
    }

    @discardableResult
    package func close() -> EventLoopFuture<Void> {
        subscriber.close()
    }
}
