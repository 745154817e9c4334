package import Logging
package import NIOCore
internal import NIOPosix

/// A Redis client for `async` code. Many callers share its connections, which reconnect until `close`.
package actor RedisClient {
    private nonisolated let eventLoop: any EventLoop
    private let topology: RedisTopology
    private let pipeline: any RedisSender
    private var isClosed = false
    /// The callers of `connect` that wait for the attempt in progress.
    private var connectContinuations: [CheckedContinuation<Void, any Error>] = []

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        eventLoop.executor.asUnownedSerialExecutor()
    }

    /// Creates a client whose connections live on `eventLoop`.
    package init(
        configuration: RedisConfiguration,
        eventLoop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next(),
        logger: Logger = Logger(label: "interlock.redis")
    ) {
        self.eventLoop = eventLoop
        topology = RedisTopology(
            configuration: configuration, environment: RedisEnvironment(eventLoop: eventLoop, logger: logger))
        pipeline = topology.makeSender()
    }

    /// Connects and logs in.
    /// - Throws: `RedisError` if the attempt fails. The next attempt is then already scheduled, and another call waits
    ///   for it. The code is `notConnected` if the client was closed before the call or during it.
    package func connect() async throws {
        guard !isClosed else { throw Self.closed }
        guard !pipeline.reachesAllKeys else { return }
        pipeline.onUp = { [weak self] _ in self?.assumeIsolated { $0.serverConnected() } }
        pipeline.onDown = { [weak self] error in self?.assumeIsolated { $0.resumeConnecting(with: .failure(error)) } }
        try await withCheckedThrowingContinuation { continuation in
            connectContinuations.append(continuation)
            pipeline.start()
            topology.start()
        }
    }

    /// Sends a command or script and waits for its reply.
    /// - Parameter timeout: the maximum wait for the reply; `nil` for the configuration's command timeout.
    package func send<Command: RedisCommand & Sendable>(
        _ command: Command, timeout: Duration? = nil
    ) async throws -> Command.Reply where Command.Reply: Sendable {
        try await withCheckedThrowingContinuation { continuation in
            pipeline.send(command, timeout: timeout.map { TimeAmount($0) }) { continuation.resume(with: $0) }
        }
    }

    /// Closes the connections and fails pending commands.
    package func close() async {
        isClosed = true
        resumeConnecting(with: .failure(Self.closed))
        // Closing cannot fail, because only this side completes the future.
        try? await pipeline.close().get()
        try? await topology.close().get()
    }

    private static let closed = RedisError(.notConnected, "this client was closed")

    private func serverConnected() {
        if pipeline.reachesAllKeys { resumeConnecting(with: .success(())) }
    }

    private func resumeConnecting(with result: Result<Void, any Error>) {
        let continuations = connectContinuations
        connectContinuations = []
        for continuation in continuations { continuation.resume(with: result) }
    }
}
