/// A URL, valid or not, as messages may show it: without user, password and query.
///
/// Every message that repeats an address of a configuration, a variable or an argument uses this instead.
package struct RedactedURL: CustomStringConvertible, Sendable {
    package let description: String

    /// Masks everything that may be a password: the text between `//` and the last `@`, and the query; everything after
    /// the scheme if an `@` occurs where a query or a password may be, or if what follows a colon is not a port.
    package init(_ text: String) {
        let scheme = text.firstRange(of: "://")
        let start = scheme?.upperBound ?? text.startIndex
        var rest = text[start...]
        if scheme != nil, let query = rest.firstIndex(of: "?"), rest[query...].contains("@") {
            description = text[..<start] + Self.mask
            return
        }
        if scheme != nil, !rest.contains("@"), Self.mayHaveLogin(rest) {
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

    /// Returns whether a host without an `@` has a colon that does not precede a port, as in `user:password`.
    private static func mayHaveLogin(_ text: Substring) -> Bool {
        let authority = text.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        // The brackets of an IPv6 address have colons.
        let hosts = authority.split(separator: ",").map { $0.lastIndex(of: "]").map { $0 } ?? $0.startIndex }
        return zip(authority.split(separator: ","), hosts).contains { host, start in
            guard let colon = host[start...].firstIndex(of: ":") else { return false }
            let port = host[host.index(after: colon)...]
            return port.isEmpty || !port.allSatisfy { $0.isASCII && $0.isNumber } || port.utf8.count > 5
        }
    }

    private static let mask = "***"
}
