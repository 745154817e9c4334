import Hiredis
import InterlockTesting
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

@testable import InterlockLoad

/// What a real Redis publishes.
actor MessageRecorder {
    /// What is heard on it comes after all that was published before.
    private static let mark = "mark"

    private struct State {
        var isListening = false
        var messages: [ModelRedis.Message] = []
        /// The mark was heard, and nobody waited for it yet.
        var isMarked = false
        var waiting: CheckedContinuation<Void, Never>?
    }

    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber
    private let client: RedisClient
    private let state = NIOLockedValueBox(State())

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// - Parameter client: with which all is done that may publish something.
    init(_ configuration: RedisConfiguration, channels: [String], client: RedisClient) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        self.client = client
        subscriber = RedisSubscriber(
            configuration: configuration, channels: channels + [Self.mark],
            environment: RedisEnvironment(eventLoop: eventLoop, logger: Logger(label: "test")))
    }

    /// Returns when all that is published will be heard.
    func start() async throws {
        subscriber.onSubscribed = { [state] in state.withLockedValue { $0.isListening = true } }
        subscriber.onMessage = { [state] channel, payload in
            guard channel == Self.mark else {
                let message = ModelRedis.Message(channel: channel, text: String(decoding: payload, as: UTF8.self))
                return state.withLockedValue { $0.messages.append(message) }
            }
            let waiting = state.withLockedValue { state in
                defer { state.waiting = nil }
                state.isMarked = state.waiting == nil
                return state.waiting
            }
            waiting?.resume()
        }
        subscriber.start()
        try await eventually("Redis is listened to") { state.withLockedValue { $0.isListening } }
    }

    /// All that was published since this was last asked.
    func take() async throws -> [ModelRedis.Message] {
        _ = try await client.send(AnyCommand(["PUBLISH", Self.mark, ""]))
        await withCheckedContinuation { continuation in
            let isMarked = state.withLockedValue { state in
                defer { state.isMarked = false }
                if !state.isMarked { state.waiting = continuation }
                return state.isMarked
            }
            if isMarked { continuation.resume() }
        }
        return state.withLockedValue { state in
            defer { state.messages = [] }
            return state.messages
        }
    }

    func close() async {
        // Closing cannot fail: the future is completed by this side alone.
        try? await subscriber.close().get()
    }
}
