// The types that a program configures and receives are declared in InterlockCore, next to the decisions that use them.
// This export makes `import Interlock` sufficient.
@_exported public import InterlockCore
public import Logging

/// Runs `body` with a coordinator that is started before it and stopped after it.
///
/// The function waits up to five seconds for Redis before `body` begins. If Redis is still unreachable then, the calls
/// report it.
///
/// - Parameters:
///   - url: the URL of Redis; see `InterlockConfiguration.init(redis:)`.
///   - services: the services whose limits and breakers are shared.
///   - logger: the coordinator's logger.
///   - isolation: the isolation of `body`, by default that of its caller.
///   - body: the code that uses the coordinator.
/// - Returns: the result of `body`.
/// - Throws: `InterlockError` if the URL or a service cannot be used, or the error of `body`.
public func withCoordinator<Result>(
    redis url: String, services: [ServiceDefinition] = [], logger: Logger = Logger(label: "interlock"),
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Coordinator) async throws -> Result
) async throws -> Result {
    try await withCoordinator(InterlockConfiguration(redis: url, services: services), logger: logger, body)
}

/// Runs `body` with a coordinator that is started before it and stopped after it.
///
/// The function waits up to five seconds for Redis before `body` begins. If Redis is still unreachable then, the calls
/// report it.
///
/// - Returns: the result of `body`.
/// - Throws: the error of `body`, or `CancellationError` if the task was cancelled before `body` began.
public func withCoordinator<Result>(
    _ configuration: InterlockConfiguration, logger: Logger = Logger(label: "interlock"),
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Coordinator) async throws -> Result
) async throws -> Result {
    let coordinator = Coordinator(configuration, logger: logger)
    await coordinator.start()
    await coordinator.waitUntilReady(timeout: .seconds(5))
    return try await withCleanup {
        try Task.checkCancellation()
        return try await body(coordinator)
    } finally: {
        await coordinator.stop()
    }
}
