import FoundationEssentials

/// The JSON output of the commands: one line for each answer.
package enum JSONOutput {
    /// Encodes a value as one line, with sorted keys.
    package static func text(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return line(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Returns the JSON on one line, with characters escaped that may control a terminal.
    ///
    /// JSON allows characters below U+0020 only between tokens, where a space is equivalent. The other control
    /// characters can occur only within strings.
    package static func line(_ json: String) -> String {
        var line = ""
        for scalar in json.unicodeScalars {
            if scalar.value < 0x20 {
                line += " "
            } else if scalar.isUnprintable {
                let digits = String(scalar.value, radix: 16)
                line += "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
            } else {
                line.unicodeScalars.append(scalar)
            }
        }
        return line
    }
}

extension StringProtocol {
    /// The text with U+FFFD in place of every character that moves a terminal's cursor, rings its bell or reverses its
    /// writing direction. Names, labels and messages come from untrusted sources.
    package var printable: String {
        var printable = ""
        for scalar in unicodeScalars {
            printable.unicodeScalars.append(scalar.isUnprintable ? "\u{FFFD}" : scalar)
        }
        return printable
    }
}

extension Unicode.Scalar {
    /// Whether a terminal may interpret the character instead of displaying it.
    package var isUnprintable: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        case .format: properties.isBidiControl
        default: false
        }
    }
}
