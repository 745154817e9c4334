import Hiredis
import Logging
import NIOCore
import NIOPosix

/// A `RedisPipeline` for tests: on its event loop, with what it reports turned into values that can be awaited.
actor PinnedPipeline {
    private nonisolated let eventLoop: any EventLoop
    private let pipeline: RedisPipeline

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(_ configuration: RedisConfiguration, random: RandomSource = .system) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        pipeline = RedisPipeline(
            configuration: configuration,
            environment: RedisEnvironment(eventLoop: eventLoop, random: random, logger: Logger(label: "test")))
    }

    var commandsSent: Int64 { pipeline.commandsSent }

    /// Starts, and waits for the first connection.
    func connect() async {
        await withCheckedContinuation { continuation in
            pipeline.onUp = { continuation.resume() }
            pipeline.start()
        }
        pipeline.onUp = nil
    }

    /// Starts, and writes something on each connection.
    func writeWheneverUp() {
        pipeline.onUp = { [weak pipeline] in pipeline?.send(AnyCommand(["SET", "a", "b"])) { _ in } }
        pipeline.start()
    }

    /// Sends commands in one tick of the event loop; their results in the order in which they came, each with the number of
    /// its command.
    func batch(_ commands: [AnyCommand]) async -> [(number: Int, result: Result<RedisReply, RedisError>)] {
        await withCheckedContinuation { continuation in
            var results: [(number: Int, result: Result<RedisReply, RedisError>)] = []
            for (number, command) in commands.enumerated() {
                pipeline.send(command) { result in
                    results.append((number, result))
                    if results.count == commands.count { continuation.resume(returning: results) }
                }
            }
        }
    }

    /// Sends `first`, and `second` from within its completion; the result of `second`.
    func chain(_ first: AnyCommand, _ second: AnyCommand) async -> Result<RedisReply, RedisError> {
        await withCheckedContinuation { continuation in
            pipeline.send(first) { [pipeline] _ in
                pipeline.send(second) { continuation.resume(returning: $0) }
            }
        }
    }

    func close() async throws {
        try await pipeline.close().get()
    }
}
