/// The error for a condition that did not become true in time.
package struct DeadlineExceeded: Error, Hashable, Sendable, CustomStringConvertible {
    /// The awaited condition.
    package var expectation: String
    /// The length of the wait.
    package var limit: Duration

    package init(expectation: String, limit: Duration) {
        self.expectation = expectation
        self.limit = limit
    }

    package var description: String { "not true within \(limit): \(expectation)" }
}
