internal import Glibc

/// One command in the connection's buffer. Arguments are copied only when they are read as text.
///
/// A request is valid only while the buffer that it refers to exists.
package struct RESPRequest {
    let bytes: UnsafeRawBufferPointer
    /// The range of each argument in `bytes`. The first argument is the command's name.
    let arguments: [Range<Int>]

    package init(bytes: UnsafeRawBufferPointer, arguments: [Range<Int>]) {
        self.bytes = bytes
        self.arguments = arguments
    }

    package var count: Int { arguments.count }

    /// Returns argument `index` as text. Invalid UTF-8 is replaced.
    package func text(_ index: Int) -> String {
        String(decoding: argument(index), as: UTF8.self)
    }

    /// Returns argument `index` as a number; `nil` if it is not a decimal number that fits into 64 bits.
    package func integer(_ index: Int) -> Int64? {
        let text = argument(index)
        guard let first = text.first, text.count <= 20 else { return nil }
        let isNegative = first == UInt8(ascii: "-")
        let magnitude = isNegative ? text.dropFirst() : text[...]
        guard !magnitude.isEmpty else { return nil }
        var value: Int64 = 0
        for byte in magnitude {
            let digit = Int64(byte) - Int64(UInt8(ascii: "0"))
            guard (0...9).contains(digit) else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, sumOverflow) =
                isNegative ? product.subtractingReportingOverflow(digit) : product.addingReportingOverflow(digit)
            guard !overflow, !sumOverflow else { return nil }
            value = sum
        }
        return value
    }

    /// Returns whether argument `index` is `word`, which must be in upper case. The case of the argument is ignored.
    func isWord(_ index: Int, _ word: StaticString) -> Bool {
        let candidate = argument(index)
        guard candidate.count == word.utf8CodeUnitCount else { return false }
        return word.withUTF8Buffer { expected in
            zip(candidate, expected).allSatisfy { Self.upperCased($0) == $1 }
        }
    }

    /// Returns whether argument `index` consists of these bytes.
    func isEqual(_ index: Int, _ expected: [UInt8]) -> Bool {
        let candidate = argument(index)
        return candidate.count == expected.count
            && expected.withUnsafeBytes { expected in
                guard let left = candidate.baseAddress, let right = expected.baseAddress else { return true }
                return memcmp(left, right, expected.count) == 0
            }
    }

    /// The key of the command's name. The key of a name of more than 15 bytes matches no command.
    package var nameKey: CommandKey { key(of: 0) }

    /// Returns the key of argument `index`.
    func key(of index: Int) -> CommandKey { CommandKey(argument(index)) }

    /// Returns the bytes of argument `index`.
    func argument(_ index: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: bytes[arguments[index]])
    }

    static func upperCased(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte & 0xDF : byte
    }
}

/// A command's name in upper case, packed into 16 bytes for a single comparison.
package struct CommandKey: Hashable, Sendable {
    private let low: UInt64
    private let high: UInt64

    init(_ name: UnsafeRawBufferPointer) {
        var low: UInt64 = 0
        var high: UInt64 = 0
        let count = min(name.count, 16)
        for index in 0..<count {
            let byte = UInt64(RESPRequest.upperCased(name[index]))
            if index < 8 { low |= byte << UInt64(8 * index) } else { high |= byte << UInt64(8 * (index - 8)) }
        }
        // No command's name exceeds 15 bytes, so the last byte distinguishes longer names from all of them.
        if name.count > 15 { high |= 0xFF << 56 }
        self.low = low
        self.high = high
    }

    init(_ name: String) {
        var copy = name
        self = copy.withUTF8 { CommandKey(UnsafeRawBufferPointer($0)) }
    }
}
