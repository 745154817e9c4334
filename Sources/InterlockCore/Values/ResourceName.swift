internal import Glibc

/// The name of a lock, a service or a subject, a holder's label or token: 1–256 bytes of UTF-8 without control characters,
/// spaces or braces.
///
/// Braces would move a key to another slot of a Redis Cluster; spaces and control characters would make the keys
/// unreadable at `redis-cli`.
package struct ResourceName: Hashable, Sendable, CustomStringConvertible {
    /// The longest name, in bytes of UTF-8.
    package static let longest = 256
    /// What a name has to be, in words.
    package static let rule = "1-\(longest) bytes of UTF-8 without control characters, spaces or braces"

    /// The name as given.
    package let text: String

    /// Accepts a name that keeps the rule.
    /// - Throws: `Violation`, which says what is wrong with the name.
    package init(_ text: String) throws(Violation) {
        let bytes = text.utf8.count
        guard bytes > 0 else { throw .empty }
        guard bytes <= Self.longest else { throw .tooLong(bytes: bytes) }
        // Nearly every name is plain ASCII, whose bytes are judged without decoding.
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

    /// What a name should have been that becomes a part of a key, whose parts are joined with `:`; `nil`: it will do.
    package static func expectedPart(insteadOf text: String) -> String? {
        do throws(Violation) {
            _ = try Self(text)
        } catch {
            return "a name of \(rule)"
        }
        return text.contains(":") ? "a name without \":\"" : nil
    }

    /// What a text should have been that keys begin with: all of them, or those of locks; `nil`: it will do.
    package static func expectedPrefix(insteadOf text: String, isEmptyAllowed: Bool) -> String? {
        let lengths = (isEmptyAllowed ? 0 : 1)...64
        let isAcceptable = lengths.contains(text.utf8.count) && !text.unicodeScalars.contains(where: isForbidden)
        return isAcceptable
            ? nil
            : "\(lengths.lowerBound)-\(lengths.upperBound) bytes without control characters, spaces or braces"
    }

    private static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "{", "}", "\u{FFFD}": true
        // They change the direction of text: a name would be shown as another one.
        case "\u{061C}", "\u{200E}", "\u{200F}", "\u{202A}"..."\u{202E}", "\u{2066}"..."\u{2069}": true
        default: scalar.properties.generalCategory == .control || scalar.properties.isWhitespace
        }
    }

    /// Visible ASCII but for the braces.
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "{") && byte != UInt8(ascii: "}")
    }

    /// What is wrong with a name.
    package enum Violation: Error, Equatable, Sendable, CustomStringConvertible {
        case empty
        case tooLong(bytes: Int)
        case forbidden(Unicode.Scalar)

        package var description: String { described(as: "name") }

        /// What is wrong, behind the option or field that it is wrong with: `LABEL: the label is empty; …`.
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
                case .forbidden(let scalar): "contains \(scalar.codePoint)"
                }
            return "the \(noun) \(fault); it must be \(ResourceName.rule)"
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
