/// The target of a proxy request: its path after `/proxy/{service}` and its query, as the client sent them.
///
/// Servers differ in how often they decode a path, and in which characters they treat as separators. A path that any of
/// them could interpret as leaving the base path is rejected, so that every call stays below it.
package struct ProxyTarget: Sendable, Equatable {
    /// The prefix of the target on the request line.
    package static let prefix = "/proxy/"

    /// The human-readable reason why a target is rejected.
    package struct Violation: Error {
        package let description: String

        init(_ description: String) {
            self.description = description
        }
    }

    /// The path without its first slash; `nil` for the base URL itself.
    package let path: String?
    /// The query without its question mark; `nil` if the target has no query.
    package let query: String?

    /// Splits a target into path and query. Rejects targets that an upstream could read differently.
    /// - Parameter target: the target of the request line, which begins with `prefix`.
    /// - Throws: `Violation`.
    package init(_ target: some StringProtocol) throws(Violation) {
        let target = Substring(target)
        let suffix = target.dropFirst(Self.prefix.count)
        let questionMarkIndex = suffix.utf8.firstIndex(of: UInt8(ascii: "?"))
        let serviceAndPath = suffix[..<(questionMarkIndex ?? suffix.endIndex)]
        query = try questionMarkIndex.map { index throws(Violation) in
            try Self.encoded(suffix[suffix.utf8.index(after: index)...], "query", Self.isAllowedInQuery)
        }
        guard let slashIndex = serviceAndPath.utf8.firstIndex(of: UInt8(ascii: "/")) else {
            path = nil
            return
        }
        let encodedPath = serviceAndPath[serviceAndPath.utf8.index(after: slashIndex)...]
        guard encodedPath.utf8.first != UInt8(ascii: "/") else {
            throw Violation("the path after the service begins with //, which could be read as a host")
        }
        // After decoding, a path can begin with two separators only if its first character is encoded or a separator.
        if let first = encodedPath.utf8.first, first == UInt8(ascii: "%") || Self.isSeparator(first),
            let decodedOnce = PercentEncoding.decode(encodedPath)
        {
            for decoded in [decodedOnce, PercentEncoding.decode(decodedOnce[...]) ?? decodedOnce]
            where decoded.utf8.prefix(2).count(where: Self.isSeparator) == 2 {
                throw Violation(
                    "the path after the service, once decoded, begins with two slashes, which could be read as a host")
            }
        }
        for segment in encodedPath.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true) {
            try Self.check(Substring(segment))
        }
        path = try Self.encoded(encodedPath, "path", Self.isAllowedInPath)
    }

    /// Rejects a segment that, decoded once or twice, contains a control character or that a server may treat as `.` or
    /// `..`.
    private static func check(_ segment: Substring) throws(Violation) {
        let isPlain = segment.utf8.first != UInt8(ascii: ".") && !segment.utf8.contains(UInt8(ascii: "%"))
        if isPlain { return }
        guard let decodedOnce = PercentEncoding.decode(segment) else {
            throw Violation("the path is not percent-encoded UTF-8")
        }
        // If a segment cannot be decoded a second time, only its first decoding is checked.
        for decoded in [decodedOnce, PercentEncoding.decode(decodedOnce[...]) ?? decodedOnce] {
            if decoded.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
                throw Violation("the path contains an encoded control character")
            }
            if hasDotSegment(decoded) {
                throw Violation("the path contains a segment that decodes to . or ..")
            }
        }
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }

    /// Returns whether a server may interpret the segment as `.` or `..`. Some servers treat a backslash as a slash, or
    /// ignore everything after a semicolon or after the start of a query or a fragment.
    private static func hasDotSegment(_ segment: String) -> Bool {
        segment.split(whereSeparator: { $0 == "/" || $0 == "\\" }).contains { part in
            let name = part.prefix { $0 != ";" && $0 != "?" && $0 != "#" }
            return name == "." || name == ".."
        }
    }

    /// Returns a part of the target in a form that can be sent. Percent-encodes the characters that many clients
    /// wrongly leave unencoded.
    private static func encoded(_ text: Substring, _ part: String, _ isAllowed: (UInt8) -> Bool) throws(Violation) -> String {
        if text.utf8.allSatisfy(isAllowed) { return String(text) }
        var encoded = ""
        var remaining = text.utf8[...]
        while let byte = remaining.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                let digits = remaining.prefix(2)
                guard digits.count == 2, digits.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) else {
                    throw Violation(
                        "the \(part) contains a % that is not followed by two hexadecimal digits; write %25")
                }
                encoded += "%" + String(Substring(digits))
                remaining = remaining.dropFirst(2)
            case 0...0x20, 0x7F..., UInt8(ascii: "\\"), UInt8(ascii: "#"):
                throw Violation(
                    "the \(part) contains a space, a control character, a backslash, a # or a byte above 127; encode it"
                )
            case let byte where isAllowed(byte):
                encoded.unicodeScalars.append(UnicodeScalar(byte))
            default:
                encoded += "%" + String(byte, radix: 16, uppercase: true)
            }
        }
        return encoded
    }

    private static func isAllowedInQuery(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "?") || isAllowedInPath(byte) }

    /// Returns whether a byte is an unreserved character, a sub-delimiter, `:`, `@` or `/` (RFC 3986).
    private static func isAllowedInPath(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "&")...UInt8(ascii: ";"),  // & ' ( ) * + , - . / 0-9 : ;
            UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "="), UInt8(ascii: "@"):
            true
        default:
            false
        }
    }
}
