/// Why a run could not begin, or could not be ended as it should.
public struct LoadError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was asked, what was wrong, what to do.
    public var description: String

    public init(_ description: String) {
        self.description = description
    }
}
