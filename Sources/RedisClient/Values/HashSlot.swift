/// One of the 16,384 hash slots over which a cluster distributes its keys.
///
/// Source: "Redis Cluster specification", sections "Key distribution model" and "Hash tags".
package struct HashSlot: Hashable, Comparable, Sendable, CustomStringConvertible {
    package static let count = 16_384

    /// The number of the hash slot, from 0 to 16,383.
    package let number: Int

    /// Creates the hash slot with a number; returns `nil` if there is no such hash slot.
    package init?(_ number: Int64) {
        guard (0..<Int64(Self.count)).contains(number) else { return nil }
        self.number = Int(number)
    }

    /// Computes the hash slot of a key. Hashes only the hash tag, the text between the first `{` and the next `}`, if
    /// the key has one that is not empty; otherwise hashes the whole key.
    package init(ofKey key: some Collection<UInt8>) {
        var tag = key[...]
        if let open = key.firstIndex(of: UInt8(ascii: "{")) {
            let inside = key[key.index(after: open)...]
            if let close = inside.firstIndex(of: UInt8(ascii: "}")), close > inside.startIndex { tag = inside[..<close] }
        }
        var remainder: UInt16 = 0
        for byte in tag { remainder = remainder << 8 ^ Self.table[Int(remainder >> 8 ^ UInt16(byte))] }
        number = Int(remainder) % Self.count
    }

    package init(ofKey key: String) {
        self.init(ofKey: key.utf8)
    }

    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }

    package var description: String { "\(number)" }

    /// The CRC-16/XMODEM of each byte.
    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { remainder, _ in
            remainder & 0x8000 == 0 ? remainder << 1 : remainder << 1 ^ 0x1021
        }
    }
}

extension ClosedRange<HashSlot> {
    var count: Int { upperBound.number - lowerBound.number + 1 }
}
