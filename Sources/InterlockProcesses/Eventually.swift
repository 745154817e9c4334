/// Waits until `condition` holds. Returns immediately if it already does.
///
/// Use it for state that cannot be awaited, such as that of another process. It checks every 2 ms and returns as soon
/// as the condition holds, so choose a generous limit.
///
/// - Parameters:
///   - limit: the maximum wait.
///   - expectation: the awaited condition, for the error's message.
/// - Throws: `DeadlineExceeded` if the condition does not hold in time, or the error of `condition`.
package func eventually(
    within limit: Duration = .seconds(20),
    _ expectation: String,
    condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw DeadlineExceeded(expectation: expectation, limit: limit) }
        // Poll, because the change cannot be awaited.
        try await Task.sleep(for: .milliseconds(2))
    }
}
