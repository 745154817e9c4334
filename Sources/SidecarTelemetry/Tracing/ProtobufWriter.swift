/// Writes a message field by field into an array, because a `ByteBuffer` takes twenty times as long per byte.
/// Benchmarks: `make bench-envoy` for rate limit responses, `make bench-traces` for spans.
package struct ProtobufWriter {
    package private(set) var bytes: [UInt8] = []

    package init(capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    /// Returns the bytes that `write` produces.
    static func bytes(capacity: Int = 0, _ write: (inout ProtobufWriter) -> Void) -> [UInt8] {
        var writer = ProtobufWriter(capacity: capacity)
        write(&writer)
        return writer.bytes
    }

    /// Writes a number. Omits 0, as proto3 requires.
    package mutating func write(_ field: UInt64, _ value: UInt64) {
        if value != 0 { write(field, oneOf: value) }
    }

    /// Writes a text. Omits an empty one.
    package mutating func write(_ field: UInt64, _ text: String) {
        if !text.isEmpty { write(field, oneOf: text) }
    }

    /// Writes a number of a `oneof`, even if it is 0.
    mutating func write(_ field: UInt64, oneOf value: UInt64) {
        write(varint: ProtobufTag.number(field))
        write(varint: value)
    }

    /// Writes a text of a `oneof`, even if it is empty.
    mutating func write(_ field: UInt64, oneOf text: String) {
        write(varint: ProtobufTag.content(field))
        write(varint: UInt64(text.utf8.count))
        bytes.append(text: text)
    }

    /// Writes an 8-byte number. Omits 0.
    mutating func write(_ field: UInt64, fixed64 value: UInt64) {
        guard value != 0 else { return }
        write(varint: ProtobufTag.fixed64(field))
        append(value.littleEndian)
    }

    /// Writes a 4-byte number. Omits 0.
    mutating func write(_ field: UInt64, fixed32 value: UInt32) {
        guard value != 0 else { return }
        write(varint: ProtobufTag.fixed32(field))
        append(value.littleEndian)
    }

    /// Appends encoded fields to the current content.
    mutating func append(_ content: [UInt8]) { bytes += content }

    /// Appends a number to the current content, most significant byte first.
    mutating func append(bigEndian number: UInt64) { append(number.bigEndian) }

    private mutating func append(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) }
    }

    /// Writes a nested message.
    package mutating func write(_ field: UInt64, _ message: (inout ProtobufWriter) -> Void) {
        let start = begin(field)
        message(&self)
        end(contentFrom: start)
    }

    /// Writes a text in pieces.
    package mutating func write(_ field: UInt64, text: (inout [UInt8]) -> Void) {
        let start = begin(field)
        text(&bytes)
        end(contentFrom: start)
    }

    /// Writes the tag of a text or a message, and reserves a byte for its length.
    /// - Returns: the index at which the content begins.
    private mutating func begin(_ field: UInt64) -> Int {
        write(varint: ProtobufTag.content(field))
        // The length is not known yet, but nearly always fits into this byte.
        bytes.append(0)
        return bytes.count
    }

    /// Writes the length of the content that begins at `start`.
    private mutating func end(contentFrom start: Int) {
        var length = bytes.count - start
        var index = start - 1
        // Each byte holds seven bits; the first byte is reserved already.
        let extraByteCount = (Int.bitWidth - length.leadingZeroBitCount - 1) / 7
        if extraByteCount > 0 { bytes.insert(contentsOf: repeatElement(0, count: extraByteCount), at: start) }
        while length >= 0x80 {
            bytes[index] = UInt8(truncatingIfNeeded: length) | 0x80
            length >>= 7
            index += 1
        }
        bytes[index] = UInt8(length)
    }

    private mutating func write(varint value: UInt64) {
        var remainingBits = value
        while remainingBits >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: remainingBits) | 0x80)
            remainingBits >>= 7
        }
        bytes.append(UInt8(remainingBits))
    }
}
