/// The identifier of a permit: 128 random bits.
package struct PermitID: Hashable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    package init(_ bits: (UInt64, UInt64)) {
        (high, low) = bits
    }

    /// Parses the 32 hexadecimal digits of a `description`; `nil` for any other text.
    package init?(_ text: String) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }),
            let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.high = high
        self.low = low
    }

    package var description: String { OwnerToken.hexadecimal(high) + OwnerToken.hexadecimal(low) }
}
