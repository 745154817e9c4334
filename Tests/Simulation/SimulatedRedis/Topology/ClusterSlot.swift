/// The hash slots of a cluster. The simulated server computes them independently, so that it exposes a mistake of the
/// product.
package enum ClusterSlot {
    package static let count = 16_384

    package static func of(_ key: String) -> Int { of(Bytes(key)) }

    static func of(_ key: Bytes) -> Int {
        let bytes = key.storage
        guard let open = bytes.firstIndex(of: UInt8(ascii: "{")),
            let close = bytes[(open + 1)...].firstIndex(of: UInt8(ascii: "}")), close > open + 1
        else { return checksum(bytes[...]) % count }
        return checksum(bytes[(open + 1)..<close]) % count
    }

    /// CRC-16 with the polynomial 0x1021. The table of whole bytes is computed bit by bit, following the definition.
    private static func checksum(_ bytes: ArraySlice<UInt8>) -> Int {
        var sum: UInt16 = 0
        for byte in bytes { sum = (sum << 8) ^ table[Int(UInt8(truncatingIfNeeded: sum >> 8) ^ byte)] }
        return Int(sum)
    }

    private static let table: [UInt16] = (0..<256).map { (byte: Int) -> UInt16 in
        var sum = UInt16(byte) << 8
        for _ in 0..<8 { sum = sum & 0x8000 != 0 ? (sum << 1) ^ 0x1021 : sum << 1 }
        return sum
    }
}
