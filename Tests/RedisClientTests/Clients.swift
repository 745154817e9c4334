import Logging
import NIOCore
import NIOPosix
import RedisClient

/// Runs `body` with a client, by default connected, and closes the client afterwards.
func withClient<Result>(
    _ configuration: RedisConfiguration,
    connects: Bool = true,
    _ body: (RedisClient) async throws -> Result
) async throws -> Result {
    let client = RedisClient(configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next())
    do {
        if connects { try await client.connect() }
        let result = try await body(client)
        await client.close()
        return result
    } catch {
        await client.close()
        throw error
    }
}

/// Returns the code of the `RedisError` that `operation` throws; `nil` if it succeeds.
func failureCode(of operation: () async throws -> Void) async -> RedisError.Code? {
    do {
        try await operation()
        return nil
    } catch {
        return (error as? RedisError)?.code
    }
}

extension RedisClient {
    /// Sends a command, given by its name and arguments.
    func sendCommand(_ arguments: String..., timeout: Duration? = nil) async throws -> RedisReply {
        try await send(AnyCommand(arguments), timeout: timeout)
    }

    /// Returns the server's ID for this client's connection. Each connection has a different ID.
    func connectionID() async throws -> Int64? {
        try await sendCommand("CLIENT", "ID").integer
    }
}

/// A `RedisPipeline` for tests, with `async` methods instead of callbacks. Isolated to the event loop.
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

    var sentCommandCount: Int64 { pipeline.sentCommandCount }

    /// Starts the pipeline and waits for the first connection.
    func connect() async {
        await withCheckedContinuation { continuation in
            pipeline.onUp = { _ in continuation.resume() }
            pipeline.start()
        }
        pipeline.onUp = nil
    }

    /// Starts the pipeline and sends a write on each new connection.
    func writeOnEachConnection() {
        pipeline.onUp = { [weak pipeline] _ in pipeline?.send(AnyCommand(["SET", "a", "b"])) { _ in } }
        pipeline.start()
    }

    /// Sends commands in one tick. Returns the results in the order in which they arrive, with the indices of their
    /// commands.
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

    /// Sends `first`, and `second` from within its completion. Returns the result of `second`.
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
