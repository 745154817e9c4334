/// Whole numbers in the format of `cmsgpack` in the scripts: one MessagePack array. All numbers of a batch are one
/// argument and one reply, which costs both sides only a fraction of separate arguments and elements.
///
/// Source: https://github.com/msgpack/msgpack/blob/master/spec.md
struct PackedNumbers {
    private static let array32: UInt8 = 0xDD
    private static let headerLength = 5

    /// The encoded array.
    var bytes: [UInt8] {
        var bytes = storage
        for index in 0..<4 { bytes[1 + index] = UInt8(truncatingIfNeeded: count >> UInt32(24 - 8 * index)) }
        return bytes
    }

    private var storage: [UInt8] = [Self.array32, 0, 0, 0, 0]
    private var count: UInt32 = 0

    init(capacity: Int) {
        storage.reserveCapacity(Self.headerLength + 3 * capacity)
    }

    mutating func append(_ number: Int64) {
        count += 1
        switch number {
        case 0..<0x80:
            storage.append(UInt8(number))
        case 0x80..<0x1_0000:
            storage.append(0xCD)
            appendBigEndian(UInt64(number), bytes: 2)
        default:
            storage.append(number < 0 ? 0xD3 : 0xCF)
            appendBigEndian(UInt64(bitPattern: number), bytes: 8)
        }
    }

    mutating func append(_ number: Int) { append(Int64(number)) }

    private mutating func appendBigEndian(_ number: UInt64, bytes: Int) {
        for index in (0..<bytes).reversed() { storage.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * index))) }
    }
}
