/// An argument of a load run that cannot be read.
package struct LoadArgumentError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What would have been understood: `uniform, or zipf:EXPONENT such as zipf:1.1`.
    package var expected: String
    /// What was there instead. Never an address with a password.
    package var found: String?

    package init(expected: String, found: String?) {
        self.expected = expected
        self.found = found
    }

    package var description: String { "expected \(expected)" + (found.map { ", got \"\($0)\"" } ?? "") }
}
