import Hiredis
import Interlock
import Logging
import NIOCore
import NIOPosix

/// Follows a sidecar's event channel, over one connection after another. Lives on its connection's event loop.
actor EventFollower {
    /// What there is to tell.
    enum Notice: Sendable {
        /// From here on nothing is missed while the connection lasts.
        case following
        case event(json: [UInt8])
        /// What happens until the next `following` is missed.
        case interrupted
    }

    /// What waits for the terminal. A slow one loses the oldest.
    nonisolated let notices = NewestBuffer<Notice>(capacity: 10_000)
    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(configuration: RedisConfiguration, channel: String) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        subscriber = RedisSubscriber(
            configuration: configuration, channels: [channel],
            environment: RedisEnvironment(eventLoop: eventLoop, logger: Logger(label: "interlock")))
    }

    func start() {
        subscriber.onSubscribed = { [notices] in notices.push(.following) }
        subscriber.onMessage = { [notices] _, payload in notices.push(.event(json: payload)) }
        subscriber.onDown = { [notices] _ in notices.push(.interrupted) }
        subscriber.start()
    }

    func close() async {
        notices.finish()
        // Closing cannot fail: the future is completed by this side alone.
        try? await subscriber.close().get()
    }
}
