/// Something that a test waited for did not come about in time.
public struct DeadlineExceeded: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was waited for.
    public var expectation: String
    /// How long.
    public var limit: Duration

    public init(expectation: String, limit: Duration) {
        self.expectation = expectation
        self.limit = limit
    }

    public var description: String { "waited \(limit) in vain for this: \(expectation)" }
}
