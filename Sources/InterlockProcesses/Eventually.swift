/// Waits until `condition` holds; returns at once when it already does.
///
/// For what cannot be awaited, such as another process' state. It looks every 2 ms, so it ends as soon as the condition
/// holds, however generous the limit is.
///
/// - Parameters:
///   - limit: how long to wait at most.
///   - expectation: what is waited for, for the error's message.
/// - Throws: `DeadlineExceeded` when the condition does not hold in time; whatever `condition` throws.
package func eventually(
    within limit: Duration = .seconds(20),
    _ expectation: String,
    condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw DeadlineExceeded(expectation: expectation, limit: limit) }
        // Between two looks at what tells nobody that it has changed.
        try await Task.sleep(for: .milliseconds(2))
    }
}

/// Something that a test waited for did not come about in time.
package struct DeadlineExceeded: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was waited for.
    package var expectation: String
    /// How long.
    package var limit: Duration

    package init(expectation: String, limit: Duration) {
        self.expectation = expectation
        self.limit = limit
    }

    package var description: String { "waited \(limit) in vain for this: \(expectation)" }
}
