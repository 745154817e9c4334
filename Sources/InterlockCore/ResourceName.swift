/// The name of a lock, a service or a subject: 1–256 bytes of UTF-8 without control characters, spaces or braces.
///
/// Braces would move a key to another slot of a Redis Cluster; spaces and control characters would make the keys
/// unreadable at `redis-cli`.
public struct ResourceName: Hashable, Sendable, CustomStringConvertible {
    /// The longest name, in bytes of UTF-8.
    public static let longest = 256

    /// The name as given.
    public let text: String

    /// Accepts a name that keeps the rule.
    /// - Throws: `Violation`, which says what is wrong with the name.
    public init(_ text: String) throws(Violation) {
        let bytes = text.utf8.count
        guard bytes > 0 else { throw .empty }
        guard bytes <= Self.longest else { throw .tooLong(bytes: bytes) }
        // Nearly every name is plain ASCII, whose bytes are judged without decoding.
        if !text.utf8.allSatisfy(Self.isPlain) {
            for scalar in text.unicodeScalars where Self.isForbidden(scalar) {
                throw .forbidden(scalar)
            }
        }
        self.text = text
    }

    public var description: String { text }

    public static func == (left: Self, right: Self) -> Bool { ExactText(left.text) == ExactText(right.text) }

    public func hash(into hasher: inout Hasher) { ExactText(text).hash(into: &hasher) }

    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "{", "}", "\u{FFFD}": true
        default: scalar.properties.generalCategory == .control || scalar.properties.isWhitespace
        }
    }

    /// Visible ASCII but for the braces.
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "{") && byte != UInt8(ascii: "}")
    }

    /// What is wrong with a name.
    public enum Violation: Error, Equatable, Sendable, CustomStringConvertible {
        case empty
        case tooLong(bytes: Int)
        case forbidden(Unicode.Scalar)

        public var description: String {
            let rule = "a name is 1-\(ResourceName.longest) bytes of UTF-8 without control characters, spaces or braces"
            return switch self {
            case .empty: "the name is empty; \(rule)"
            case .tooLong(let bytes): "the name has \(bytes) bytes; \(rule)"
            case .forbidden("\u{FFFD}"): "the name is not valid UTF-8; \(rule)"
            case .forbidden(let scalar):
                "the name contains \(scalar.codePoint); \(rule)"
            }
        }
    }
}

extension Unicode.Scalar {
    /// As Unicode writes it: `U+000A`.
    package var codePoint: String {
        let digits = String(value, radix: 16, uppercase: true)
        return "U+" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
