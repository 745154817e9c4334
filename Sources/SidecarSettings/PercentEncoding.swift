/// Percent-encoding (RFC 3986, section 2.1). A plus sign stands for itself, not for a space.
package enum PercentEncoding {
    /// Decodes `text` once. Returns `nil` if a `%` is not followed by two hexadecimal digits or the result is not
    /// UTF-8.
    package static func decode(_ text: Substring) -> String? {
        guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        var remaining = text.utf8[...]
        while let byte = remaining.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = remaining.popFirst().flatMap(digitValue),
                let low = remaining.popFirst().flatMap(digitValue)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Encodes every byte of `text` that is neither an unreserved character (RFC 3986, section 2.3) nor one of
    /// `exceptions`.
    package static func encode(_ text: String, but exceptions: String = "") -> String {
        var encoded = ""
        for byte in text.utf8 {
            let scalar = UnicodeScalar(byte)
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9", "-", ".", "_", "~": encoded.unicodeScalars.append(scalar)
            case _ where byte < 0x7F && exceptions.unicodeScalars.contains(scalar):
                encoded.unicodeScalars.append(scalar)
            default: encoded += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
        return encoded
    }

    private static func digitValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
