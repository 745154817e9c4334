import Hiredis
import InterlockTesting
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

@testable import InterlockLoad

/// What a real Redis publishes.
actor MessageRecorder {
    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber
    private let isListening = NIOLockedValueBox(false)
    private let heard = NIOLockedValueBox<[ModelRedis.Message]>([])

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(_ configuration: RedisConfiguration, channels: [String]) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        subscriber = RedisSubscriber(
            configuration: configuration, channels: channels, eventLoop: eventLoop, logger: Logger(label: "test"))
    }

    /// Returns when all that is published will be heard.
    func start() async throws {
        subscriber.onSubscribed = { [isListening] in isListening.withLockedValue { $0 = true } }
        subscriber.onMessage = { [heard] channel, payload in
            let message = ModelRedis.Message(channel: channel, text: String(decoding: payload, as: UTF8.self))
            heard.withLockedValue { $0.append(message) }
        }
        subscriber.start()
        try await eventually("Redis is listened to") { isListening.withLockedValue { $0 } }
    }

    /// The messages since it was last asked; waits until there are so many.
    func take(_ count: Int) async throws -> [ModelRedis.Message] {
        try await eventually("\(count) messages are heard") { heard.withLockedValue { $0.count } >= count }
        return heard.withLockedValue { messages in
            defer { messages = [] }
            return messages
        }
    }

    func close() async {
        // Closing cannot fail: the future is completed by this side alone.
        try? await subscriber.close().get()
    }
}
