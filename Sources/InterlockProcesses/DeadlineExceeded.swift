/// A test waited in vain.
package struct DeadlineExceeded: Error, Hashable, Sendable, CustomStringConvertible {
    /// What it waited for.
    package var expectation: String
    /// How long it waited.
    package var limit: Duration

    package init(expectation: String, limit: Duration) {
        self.expectation = expectation
        self.limit = limit
    }

    package var description: String { "waited \(limit) in vain for this: \(expectation)" }
}
