extension Result where Failure == any Error {
    /// Runs `body`, and captures its value or its error.
    package init(awaiting body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}

/// Runs `body`, and then `end` even if `body` throws.
/// - Parameter onError: a handler that runs before `end` if `body` throws.
package func withCleanup<Value>(
    _ body: () async throws -> Value, onError: (any Error) async -> Void = { _ in }, finally end: () async -> Void
) async throws -> Value {
    let result = await Result(awaiting: body)
    if case .failure(let error) = result { await onError(error) }
    await end()
    return try result.get()
}
