import Hiredis
import Logging
import NIOCore
import NIOPosix

/// A `RedisSubscriber` for tests: what it reports comes as a sequence of events.
actor SubscriptionRecorder {
    enum Event: Equatable, Sendable {
        case subscribed
        case message(channel: String, payload: String)
        case down
    }

    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber
    private let events: AsyncStream<Event>.Continuation
    nonisolated let stream: AsyncStream<Event>

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(_ configuration: RedisConfiguration, channels: [String], checkInterval: Duration = .seconds(5)) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        (stream, events) = AsyncStream.makeStream()
        subscriber = RedisSubscriber(
            configuration: configuration, channels: channels,
            environment: RedisEnvironment(eventLoop: eventLoop, logger: Logger(label: "test")),
            checkInterval: checkInterval)
    }

    func start() {
        subscriber.onSubscribed = { [events] in events.yield(.subscribed) }
        subscriber.onMessage = { [events] channel, payload in
            events.yield(.message(channel: channel, payload: String(decoding: payload, as: UTF8.self)))
        }
        subscriber.onDown = { [events] _ in events.yield(.down) }
        subscriber.start()
    }

    func close() async throws {
        try await subscriber.close().get()
        events.finish()
    }
}
