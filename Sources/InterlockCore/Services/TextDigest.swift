/// A 64-bit digest of text, as 16 hexadecimal digits. It uses FNV-1a, because Swift's own hashes differ between
/// processes.
package enum TextDigest {
    /// Returns the digest of `text`.
    package static func of(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return OwnerToken.hexadecimal(hash)
    }

    /// Returns the digest of several lines.
    static func of(_ lines: [String]) -> String { of(lines.joined(separator: "\n")) }
}
