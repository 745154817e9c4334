/// JSON strings for documents that are written piece by piece.
package enum JSONText {
    /// Returns `text` in quotes. Escapes the characters that JSON requires, and those that a terminal would interpret
    /// instead of displaying: control characters, line and paragraph separators, and marks that change the direction of
    /// text.
    package static func quoted(_ text: String) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count + 2)
        append(quoted: text, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Appends `text` in quotes, in the form that `quoted` returns.
    package static func append(quoted text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\":
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(UInt8(ascii: scalar))
            case _ where isTerminalControl(scalar):
                bytes.append(contentsOf: #"\u"#.utf8)
                for shift in [12, 8, 4, 0] {
                    let digit = UInt8(truncatingIfNeeded: scalar.value >> shift & 15)
                    bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
                }
            default:
                bytes.append(contentsOf: scalar.utf8)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// Returns whether a terminal interprets the character instead of displaying it. No such character is above U+FFFF.
    package static func isTerminalControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0: true
        case 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}
