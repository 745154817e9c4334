/// Waits until `condition` holds. Returns at once if it already does.
///
/// For state that nothing can await, such as another process'. It checks every 2 ms, so a generous limit costs nothing.
///
/// - Parameters:
///   - limit: the longest wait.
///   - expectation: what is awaited, for the error's message.
/// - Throws: `DeadlineExceeded` if the condition does not hold in time, or what `condition` throws.
package func eventually(
    within limit: Duration = .seconds(20),
    _ expectation: String,
    condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw DeadlineExceeded(expectation: expectation, limit: limit) }
        // Polling: nothing announces the change.
        try await Task.sleep(for: .milliseconds(2))
    }
}
