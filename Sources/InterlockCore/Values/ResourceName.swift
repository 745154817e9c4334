internal import Glibc

/// The name of a lock, a service or a subject, or a holder's label or token: 1–256 bytes of UTF-8 without control
/// characters, spaces or braces.
///
/// Braces would move a key to another hash slot of Redis Cluster; spaces and control characters would make keys
/// unreadable in `redis-cli`.
package struct ResourceName: Hashable, Sendable, CustomStringConvertible {
    /// The maximum length in bytes of UTF-8.
    package static let maximumBytes = 256
    /// The rule for names, in words.
    package static let rule = "1-\(maximumBytes) bytes of UTF-8 without control characters, spaces or braces"

    /// The name as given.
    package let text: String

    /// Creates a name from text that follows the rule.
    /// - Throws: `Violation`, which describes the fault.
    package init(_ text: String) throws(Violation) {
        let byteCount = text.utf8.count
        guard byteCount > 0 else { throw .empty }
        guard byteCount <= Self.maximumBytes else { throw .tooLong(bytes: byteCount) }
        // Nearly every name is plain ASCII, which needs no decoding.
        let isPlain = text.utf8.withContiguousStorageIfAvailable { $0.allSatisfy(Self.isPlain) } ?? false
        if !isPlain {
            for scalar in text.unicodeScalars where Self.isForbidden(scalar) {
                throw .forbidden(scalar)
            }
        }
        self.text = text
    }

    package var description: String { text }

    package static func == (left: Self, right: Self) -> Bool { ExactText(left.text) == ExactText(right.text) }

    package func hash(into hasher: inout Hasher) { ExactText(text).hash(into: &hasher) }

    /// Describes the name expected instead of `text` in a key whose parts are joined with `:`; `nil` if `text` is
    /// valid.
    package static func expectedPart(insteadOf text: String) -> String? {
        do throws(Violation) {
            _ = try Self(text)
        } catch {
            return "a name of \(rule)"
        }
        return text.contains(":") ? "a name without \":\"" : nil
    }

    /// Describes the prefix expected instead of `text`, for all keys or for those of locks; `nil` if `text` is valid.
    package static func expectedPrefix(insteadOf text: String, isEmptyAllowed: Bool) -> String? {
        let lengths = (isEmptyAllowed ? 0 : 1)...64
        let isValid = lengths.contains(text.utf8.count) && !text.unicodeScalars.contains(where: isForbidden)
        return isValid
            ? nil
            : "\(lengths.lowerBound)-\(lengths.upperBound) bytes without control characters, spaces or braces"
    }

    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "{", "}", "\u{FFFD}": true
        // These characters change the direction of text, so a name could look like another name.
        case "\u{061C}", "\u{200E}", "\u{200F}", "\u{202A}"..."\u{202E}", "\u{2066}"..."\u{2069}": true
        default: scalar.properties.generalCategory == .control || scalar.properties.isWhitespace
        }
    }

    /// Returns whether the byte is visible ASCII other than a brace.
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "{") && byte != UInt8(ascii: "}")
    }

    /// The fault of a name.
    package enum Violation: Error, Equatable, Sendable, CustomStringConvertible {
        case empty
        case tooLong(bytes: Int)
        case forbidden(Unicode.Scalar)

        package var description: String { described(as: "name") }

        /// Returns the message for an option or a field, such as `LABEL: the label is empty; …`.
        package func message(for field: String) -> String {
            let noun = ["label", "owner", "subject", "key"].first { field.lowercased().hasSuffix($0) } ?? "name"
            return "\(field): \(described(as: noun))"
        }

        private func described(as noun: String) -> String {
            let fault =
                switch self {
                case .empty: "is empty"
                case .tooLong(let bytes): "has \(bytes) bytes"
                case .forbidden("\u{FFFD}"): "is not valid UTF-8"
                case .forbidden(let scalar): "contains \(scalar.readableName)"
                }
            return "the \(noun) \(fault); it must be \(ResourceName.rule)"
        }
    }
}

extension Unicode.Scalar {
    /// A human-readable name: `a space`, `"{"`, or the code point with the kind of character.
    package var readableName: String {
        switch self {
        case " ": "a space"
        case "\t": "a tab"
        case "\n", "\r": "a line break"
        case "\0": "a zero byte"
        case "{", "}": "\"\(self)\""
        case "\u{A0}": "a no-break space (\(codePoint))"
        default:
            if properties.generalCategory == .control {
                "the control character \(codePoint)"
            } else {
                "the invisible character \(codePoint)"
            }
        }
    }

    /// The code point in Unicode notation: `U+000A`.
    private var codePoint: String {
        let digits = String(value, radix: 16, uppercase: true)
        return "U+" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
