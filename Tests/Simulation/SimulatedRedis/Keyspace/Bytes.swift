internal import Glibc

/// A Redis string: any bytes. Unlike `String` it compares byte by byte and hashes in one step.
struct Bytes: Hashable, Comparable, Sendable, ExpressibleByStringLiteral {
    var storage: [UInt8]

    init(_ storage: [UInt8]) {
        self.storage = storage
    }

    init(_ text: String) {
        storage = Array(text.utf8)
    }

    init(stringLiteral text: StaticString) {
        storage = text.withUTF8Buffer { Array($0) }
    }

    init(_ number: Int64) {
        self.init(String(number))
    }

    /// Formats the number with `%.17g`, as Redis does for scores and Lua numbers.
    init(_ number: Double) {
        // Whole numbers below 1e17 have no exponent. -0 is excluded because C prints its sign.
        if number.magnitude < 1e17, number != 0 || number.sign == .plus, let whole = Int64(exactly: number) {
            self.init(whole)
        } else {
            self.init(Self.formatted(number))
        }
    }

    private static func formatted(_ number: Double) -> [UInt8] {
        // The sign, 17 digits, the point and a three-digit exponent fit.
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 40) { buffer in
            let length = withVaList([number]) { vsnprintf(buffer.baseAddress, buffer.count, "%.17g", $0) }
            return buffer.prefix(Int(length)).map { UInt8(bitPattern: $0) }
        }
    }

    var count: Int { storage.count }

    /// The bytes as text for messages, with invalid UTF-8 replaced.
    var text: String { String(decoding: storage, as: UTF8.self) }

    func hash(into hasher: inout Hasher) {
        storage.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    static func == (left: Bytes, right: Bytes) -> Bool { left.storage == right.storage }

    /// The order of members with equal scores in a sorted set.
    static func < (left: Bytes, right: Bytes) -> Bool {
        left.storage.lexicographicallyPrecedes(right.storage)
    }

    /// Returns whether this equals `word`, ignoring case. `word` must be in lower case.
    func isWord(_ word: StaticString) -> Bool {
        word.withUTF8Buffer { word in
            storage.count == word.count && zip(storage, word).allSatisfy { Self.lowercase($0) == $1 }
        }
    }

    var lowercased: Bytes { Bytes(storage.map(Self.lowercase)) }

    private static func lowercase(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    /// The integer in canonical form: no plus sign, no leading zeros, no spaces.
    var integer: Int64? {
        let digits = storage.first == UInt8(ascii: "-") ? storage.dropFirst() : storage[...]
        guard let first = digits.first, (1...19).contains(digits.count) else { return nil }
        if first == UInt8(ascii: "0") { return storage.count == 1 ? 0 : nil }
        var magnitude: UInt64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            // 19 digits cannot overflow.
            magnitude = magnitude * 10 + UInt64(digit - UInt8(ascii: "0"))
        }
        guard digits.count < storage.count else { return Int64(exactly: magnitude) }
        return magnitude == Int64.min.magnitude ? .min : Int64(exactly: magnitude).map { -$0 }
    }

    /// The number that C's `strtod` reads; `nil` if `strtod` does not read all bytes.
    var double: Double? {
        if storage.count < 16, let integer { return Double(integer) }
        guard let first = storage.first, isspace(Int32(first)) == 0, !storage.contains(0) else { return nil }
        let (number, length) = (storage + [0]).withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { characters in
                var end: UnsafeMutablePointer<CChar>?
                guard let start = characters.baseAddress else { return (Double.nan, 0) }
                let number = strtod(start, &end)
                return (number, end.map { UnsafePointer($0) - start } ?? 0)
            }
        }
        return length == storage.count && !number.isNaN ? number : nil
    }
}
