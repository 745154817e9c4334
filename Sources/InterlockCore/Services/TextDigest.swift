/// 64 bits of a text, as 16 hexadecimal digits: FNV-1a, the same in every process, which Swift's own hashes are not.
package enum TextDigest {
    package static func of(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return OwnerToken.hexadecimal(hash)
    }

    static func of(_ settings: [String]) -> String { of(settings.joined(separator: "\n")) }
}
