/// A URL, valid or not, as messages may show it: without user, password and query.
///
/// Every message that repeats an address of a configuration, a variable or an argument uses this instead.
package struct RedactedURL: CustomStringConvertible, Sendable {
    package let description: String

    /// Masks everything that may be a password: the text between `//` and the last `@`, and the query; everything after
    /// the scheme if an `@` occurs where a query or a password may be.
    package init(_ text: String) {
        let scheme = text.firstRange(of: "://")
        let start = scheme?.upperBound ?? text.startIndex
        var rest = text[start...]
        if scheme != nil, let query = rest.firstIndex(of: "?"), rest[query...].contains("@") {
            description = text[..<start] + Self.mask
            return
        }
        var mask = ""
        if let at = rest.lastIndex(of: "@") {
            rest = rest[at...]
            mask = Self.mask
        }
        if scheme != nil, let query = rest.firstIndex(of: "?") { rest = rest[..<query] + "?" + Self.mask }
        description = text[..<start] + mask + rest
    }

    private static let mask = "***"
}
