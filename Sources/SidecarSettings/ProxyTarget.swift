/// The path after `/proxy/{service}` and the query of a proxy request, as the client sent them.
///
/// Servers differ in how often they decode a path, and in which characters they treat as separators. A path that any of
/// them could interpret as leaving the base path is rejected, so that every call stays below it.
package struct ProxyTarget: Sendable, Equatable {
    /// The common prefix of all such targets.
    package static let prefix = "/proxy/"

    /// The reason why a target is rejected, for people.
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

    /// Parses and checks a target.
    /// - Parameter target: the target of the request line, which begins with `prefix`.
    /// - Throws: `Violation`.
    package init(_ target: some StringProtocol) throws(Violation) {
        let target = Substring(target)
        let behind = target.dropFirst(Self.prefix.count)
        let mark = behind.utf8.firstIndex(of: UInt8(ascii: "?"))
        let whole = behind[..<(mark ?? behind.endIndex)]
        query = try mark.map { mark throws(Violation) in
            try Self.sendable(behind[behind.utf8.index(after: mark)...], "query", Self.mayStandInQuery)
        }
        guard let slash = whole.utf8.firstIndex(of: UInt8(ascii: "/")) else {
            path = nil
            return
        }
        let rest = whole[whole.utf8.index(after: slash)...]
        guard rest.utf8.first != UInt8(ascii: "/") else {
            throw Violation("the path after the service begins with //, which could be read as a host")
        }
        // A path can begin with two separators after decoding only if its first character is encoded or a separator.
        if let first = rest.utf8.first, first == UInt8(ascii: "%") || Self.isSeparator(first),
            let once = PercentEncoding.decode(rest)
        {
            for text in [once, PercentEncoding.decode(once[...]) ?? once]
            where text.utf8.prefix(2).count(where: Self.isSeparator) == 2 {
                throw Violation(
                    "the path after the service, once decoded, begins with two slashes, which could be read as a host")
            }
        }
        for segment in rest.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true) {
            try Self.check(Substring(segment))
        }
        path = try Self.sendable(rest, "path", Self.mayStandInPath)
    }

    /// Rejects a segment that, decoded once or twice, contains a control character or that a server may treat as `.` or
    /// `..`.
    private static func check(_ segment: Substring) throws(Violation) {
        let isPlain = segment.utf8.first != UInt8(ascii: ".") && !segment.utf8.contains(UInt8(ascii: "%"))
        if isPlain { return }
        guard let once = PercentEncoding.decode(segment) else {
            throw Violation("the path is not percent-encoded UTF-8")
        }
        // A text that cannot be decoded a second time is checked as decoded once.
        for text in [once, PercentEncoding.decode(once[...]) ?? once] {
            if text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
                throw Violation("the path contains an encoded control character")
            }
            if climbs(text) {
                throw Violation("the path contains a segment that decodes to . or ..")
            }
        }
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }

    /// Returns whether a server may read the segment as `.` or `..`. Some servers treat a backslash as a slash, and cut
    /// off everything after a semicolon, or after the start of a query or a fragment.
    private static func climbs(_ segment: String) -> Bool {
        segment.split(whereSeparator: { $0 == "/" || $0 == "\\" }).contains { part in
            let name = part.prefix { $0 != ";" && $0 != "?" && $0 != "#" }
            return name == "." || name == ".."
        }
    }

    /// Returns the text in a form that can be sent, with the characters percent-encoded that many clients leave
    /// unencoded.
    private static func sendable(_ text: Substring, _ what: String, _ mayStand: (UInt8) -> Bool) throws(Violation) -> String {
        if text.utf8.allSatisfy(mayStand) { return String(text) }
        var sendable = ""
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                let digits = rest.prefix(2)
                guard digits.count == 2, digits.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) else {
                    throw Violation(
                        "the \(what) contains a % that is not followed by two hexadecimal digits; write %25")
                }
                sendable += "%" + String(Substring(digits))
                rest = rest.dropFirst(2)
            case 0...0x20, 0x7F..., UInt8(ascii: "\\"), UInt8(ascii: "#"):
                throw Violation(
                    "the \(what) contains a space, a control character, a backslash, a # or a byte above 127; encode it"
                )
            case let byte where mayStand(byte):
                sendable.unicodeScalars.append(UnicodeScalar(byte))
            default:
                sendable += "%" + String(byte, radix: 16, uppercase: true)
            }
        }
        return sendable
    }

    private static func mayStandInQuery(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "?") || mayStandInPath(byte) }

    /// Unreserved characters, sub-delimiters, `:`, `@` and `/` of RFC 3986.
    private static func mayStandInPath(_ byte: UInt8) -> Bool {
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
