/// A malformed argument of a load run.
package struct LoadArgumentError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The accepted form: `uniform, or zipf:EXPONENT such as zipf:1.1`.
    package var expected: String
    /// The rejected text; `nil` if it may contain a password.
    package var found: String?

    package init(expected: String, found: String?) {
        self.expected = expected
        self.found = found
    }

    package var description: String { "expected \(expected)" + (found.map { ", got \"\($0)\"" } ?? "") }
}
