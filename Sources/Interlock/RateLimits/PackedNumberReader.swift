/// Reads the whole numbers of one MessagePack array, one at a time.
struct PackedNumberReader {
    private let bytes: [UInt8]
    private var position: Int
    /// The number of elements that were not read yet.
    private var remaining: Int

    var isAtEnd: Bool { remaining == 0 && position == bytes.count }

    /// Creates a reader; returns `nil` if `bytes` do not begin with an array.
    init?(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return nil }
        switch first {
        case 0x90...0x9F: (remaining, position) = (Int(first & 0x0F), 1)
        case 0xDC where bytes.count >= 3: (remaining, position) = (Int(bytes[1]) << 8 | Int(bytes[2]), 3)
        case 0xDD where bytes.count >= 5: (remaining, position) = (bytes[1..<5].reduce(0) { $0 << 8 | Int($1) }, 5)
        default: return nil
        }
        self.bytes = bytes
    }

    /// Returns the next number; `nil` if the next element is not a whole number.
    mutating func next() -> Int64? {
        guard remaining > 0, position < bytes.count else { return nil }
        remaining -= 1
        let type = bytes[position]
        position += 1
        return switch type {
        case 0x00...0x7F: Int64(type)
        case 0xE0...0xFF: Int64(Int8(bitPattern: type))
        case 0xCC: bigEndian(1).map { Int64($0) }
        case 0xCD: bigEndian(2).map { Int64($0) }
        case 0xCE: bigEndian(4).map { Int64($0) }
        case 0xCF, 0xD3: bigEndian(8).map { Int64(bitPattern: $0) }
        case 0xD0: bigEndian(1).map { Int64(Int8(truncatingIfNeeded: $0)) }
        case 0xD1: bigEndian(2).map { Int64(Int16(truncatingIfNeeded: $0)) }
        case 0xD2: bigEndian(4).map { Int64(Int32(truncatingIfNeeded: $0)) }
        default: nil
        }
    }

    private mutating func bigEndian(_ length: Int) -> UInt64? {
        guard position + length <= bytes.count else { return nil }
        defer { position += length }
        var number: UInt64 = 0
        for offset in position..<(position + length) { number = number << 8 | UInt64(bytes[offset]) }
        return number
    }
}
