/// A URL, valid or not, as messages may show it: without user, password and query.
///
/// Every message that contains an address from a configuration, a variable or an argument uses this type.
package struct RedactedURL: CustomStringConvertible, Sendable {
    package let description: String

    /// Masks everything that may be a password: the text between `//` and the last `@`, and the query. If an `@` occurs
    /// in the query, or if a colon is followed by something other than a port, masks everything after the scheme.
    package init(_ text: String) {
        let scheme = text.firstRange(of: "://")
        let start = scheme?.upperBound ?? text.startIndex
        var remaining = text[start...]
        if scheme != nil, let query = remaining.firstIndex(of: "?"), remaining[query...].contains("@") {
            description = text[..<start] + Self.mask
            return
        }
        if scheme != nil, !remaining.contains("@"), Self.mayHaveLogin(remaining) {
            description = text[..<start] + Self.mask
            return
        }
        var mask = ""
        if let at = remaining.lastIndex(of: "@") {
            remaining = remaining[at...]
            mask = Self.mask
        }
        if scheme != nil, let query = remaining.firstIndex(of: "?") {
            remaining = remaining[..<query] + "?" + Self.mask
        }
        description = text[..<start] + mask + remaining
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
