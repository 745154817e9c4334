/// The identifier of a permit: 128 random bits.
package struct PermitID: Hashable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    package init(_ bits: (UInt64, UInt64)) {
        (high, low) = bits
    }

    /// Parses the 32 hexadecimal digits of `description`; returns `nil` if the text is anything else.
    package init?(_ text: String) {
        guard text.utf8.count == 32 else { return nil }
        var (high, low) = (UInt64(0), UInt64(0))
        for byte in text.utf8 {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: return nil
            }
            (high, low) = (high << 4 | low >> 60, low << 4 | UInt64(digit))
        }
        self.init((high, low))
    }

    package var description: String { OwnerToken.hexadecimal(high) + OwnerToken.hexadecimal(low) }
}
