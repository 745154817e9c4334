/// An argument of a load run that cannot be read.
public struct LoadArgumentError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What would have been understood: `uniform, or zipf:EXPONENT such as zipf:1.1`.
    public var expected: String
    /// What was there instead. Never an address with a password.
    public var found: String?

    public init(expected: String, found: String?) {
        self.expected = expected
        self.found = found
    }

    public var description: String { "expected \(expected)" + (found.map { ", got \"\($0)\"" } ?? "") }
}
