import Hiredis
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

    /// How many notices may wait for a slow terminal; then the oldest are dropped.
    private static let backlog = 10_000

    nonisolated let notices: AsyncStream<Notice>
    private let continuation: AsyncStream<Notice>.Continuation
    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(configuration: RedisConfiguration, channel: String) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        (notices, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.backlog))
        subscriber = RedisSubscriber(
            configuration: configuration, channels: [channel], eventLoop: eventLoop, logger: Logger(label: "interlock"))
    }

    func start() {
        subscriber.onSubscribed = { [continuation] in continuation.yield(.following) }
        subscriber.onMessage = { [continuation] _, payload in continuation.yield(.event(json: payload)) }
        subscriber.onDown = { [continuation] _ in continuation.yield(.interrupted) }
        subscriber.start()
    }

    func close() async {
        continuation.finish()
        // Closing cannot fail: the future is completed by this side alone.
        try? await subscriber.close().get()
    }
}
