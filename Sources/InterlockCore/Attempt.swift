extension Result where Failure == any Error {
    /// Captures the value or the error of `body`.
    package init(awaiting body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}

/// Runs `body`, then `end`, whether `body` returns or throws.
/// - Parameter onError: called before `end` if `body` throws.
package func attempt<Value>(
    _ body: () async throws -> Value, onError: (any Error) async -> Void = { _ in }, finally end: () async -> Void
) async throws -> Value {
    let result = await Result(awaiting: body)
    if case .failure(let error) = result { await onError(error) }
    await end()
    return try result.get()
}
