// What a program configures and is told is declared in InterlockCore, beside the decisions that use it: this makes
// `import Interlock` all that a program needs.
@_exported public import InterlockCore
public import Logging

/// Runs `body` with a coordinator that is started before it and stopped after it.
///
/// It waits up to five seconds for Redis before `body` begins; a Redis that is away then is told by the calls themselves.
///
/// - Parameters:
///   - url: see `InterlockConfiguration.init(redis:)`.
///   - services: the services whose limits and breakers are shared.
///   - logger: where the coordinator logs.
///   - isolation: where `body` runs: with its caller.
///   - body: what is done with the coordinator.
/// - Returns: what `body` returns.
/// - Throws: `InterlockError` when the URL or a service cannot be used; what `body` throws.
public func withCoordinator<Result>(
    redis url: String, services: [ServiceDefinition] = [], logger: Logger = Logger(label: "interlock"),
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Coordinator) async throws -> Result
) async throws -> Result {
    try await withCoordinator(InterlockConfiguration(redis: url, services: services), logger: logger, body)
}

/// Runs `body` with a coordinator that is started before it and stopped after it.
///
/// It waits up to five seconds for Redis before `body` begins; a Redis that is away then is told by the calls themselves.
///
/// - Returns: what `body` returns.
/// - Throws: what `body` throws; `CancellationError` when the task was cancelled before `body` began.
public func withCoordinator<Result>(
    _ configuration: InterlockConfiguration, logger: Logger = Logger(label: "interlock"),
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Coordinator) async throws -> Result
) async throws -> Result {
    let coordinator = Coordinator(configuration, logger: logger)
    await coordinator.start()
    await coordinator.untilReady(atMost: .seconds(5))
    return try await attempt {
        try Task.checkCancellation()
        return try await body(coordinator)
    } finally: {
        await coordinator.stop()
    }
}
