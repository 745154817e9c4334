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
