package import Logging
package import NIOCore
internal import RedisClient

/// A connection of its own that follows a sidecar's events, for callers on its event loop. It is kept up until `close`.
///
/// Confined to its event loop: every member is called on it. `SidecarClient.events` is for other callers.
package final class SidecarSubscription {
    private let subscriber: RedisSubscriber

    /// From here on nothing is missed while the connection lasts.
    package var onFollowing: (() -> Void)?
    /// An event: one line of JSON.
    package var onEvent: (([UInt8]) -> Void)?
    /// The connection is lost, an attempt failed, or the sidecar refuses the subscription; the next attempt is planned.
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
