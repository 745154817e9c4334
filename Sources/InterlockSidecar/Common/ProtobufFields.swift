package import NIOCore

/// Reads the fields of a message one by one, where decoding it would take longer than what is done with it, or hold too much.
/// <https://protobuf.dev/programming-guides/encoding/>
/// Benchmark: `make envoy-speed`, decisions per second of the sidecar's processor time.
struct ProtobufReader {
    private let bytes: UnsafeRawBufferPointer
    private var place = 0

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { place >= bytes.count }

    /// A field's number and how it is written, as `ProtobufTag` has them, or a number; `nil`: it is none.
    mutating func varint() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard place < bytes.count else { return nil }
            let byte = bytes[place]
            place += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }

    /// What a field has that begins with its length; `nil`: there is less.
    mutating func content() -> UnsafeRawBufferPointer? {
        guard let length = varint(), length <= UInt64(bytes.count - place) else { return nil }
        defer { place += Int(length) }
        return UnsafeRawBufferPointer(rebasing: bytes[place..<place + Int(length)])
    }

    /// `nil`: it is none.
    mutating func text() -> String? { content().flatMap { String(validating: $0, as: UTF8.self) } }

    /// Leaves out what stands behind a tag.
    /// - Returns: whether it was there.
    mutating func skip(behind tag: UInt64) -> Bool {
        switch tag & 7 {
        case 0: return varint() != nil
        case 1: place += 8
        case 2: return content() != nil
        case 3: return skipGroup()
        case 5: place += 4
        default: return false
        }
        return place <= bytes.count
    }

    /// Fields within one, as nothing of ours has any more, with those within them: counted, for a call for each would fill the stack.
    private mutating func skipGroup() -> Bool {
        var depth = 1
        while depth > 0 {
            guard let tag = varint() else { return false }
            switch tag & 7 {
            case 3: depth += 1
            case 4: depth -= 1
            default: guard skip(behind: tag) else { return false }
            }
        }
        return true
    }
}

/// What stands before a field.
enum ProtobufTag {
    static func number(_ field: UInt64) -> UInt64 { field << 3 }
    /// A number of 8 bytes, the least significant first.
    static func fixed64(_ field: UInt64) -> UInt64 { field << 3 | 1 }
    /// A text or a message.
    static func content(_ field: UInt64) -> UInt64 { field << 3 | 2 }
    /// A number of 4 bytes, the least significant first.
    static func fixed32(_ field: UInt64) -> UInt64 { field << 3 | 5 }
}

extension ByteBuffer {
    /// How often a message has the last of these fields, within those before it, as far as it is one; nothing is decoded.
    package func countOfProtobufFields(_ path: UInt64...) -> Int {
        withUnsafeReadableBytes { Self.countOfFields(path[...], in: $0) }
    }

    private static func countOfFields(_ path: ArraySlice<UInt64>, in bytes: UnsafeRawBufferPointer) -> Int {
        var reader = ProtobufReader(bytes)
        var count = 0
        while let tag = reader.varint() {
            let isNext = tag >> 3 == path.first
            if isNext, path.count > 1, tag & 7 == 2 {
                guard let content = reader.content() else { break }
                count += countOfFields(path.dropFirst(), in: content)
                continue
            }
            if isNext, path.count == 1 { count += 1 }
            guard reader.skip(behind: tag) else { break }
        }
        return count
    }
}

/// Writes a message field by field into an array, because a `ByteBuffer` takes twenty times as long per byte.
/// Benchmarks: `make envoy-speed` for answers about limits, `make traces-speed` for spans.
struct ProtobufWriter {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    /// All that `write` writes.
    static func bytes(capacity: Int = 0, _ write: (inout ProtobufWriter) -> Void) -> [UInt8] {
        var writer = ProtobufWriter(capacity: capacity)
        write(&writer)
        return writer.bytes
    }

    /// What is 0 is left out, as everywhere in proto3.
    mutating func write(_ field: UInt64, _ value: UInt64) {
        if value != 0 { write(field, oneOf: value) }
    }

    /// An empty text is left out.
    mutating func write(_ field: UInt64, _ text: String) {
        if !text.isEmpty { write(field, oneOf: text) }
    }

    /// One of several fields that there may be: which of them it is counts, even where it is 0.
    mutating func write(_ field: UInt64, oneOf value: UInt64) {
        write(varint: ProtobufTag.number(field))
        write(varint: value)
    }

    /// One of several fields that there may be: which of them it is counts, even where it is empty.
    mutating func write(_ field: UInt64, oneOf text: String) {
        write(varint: ProtobufTag.content(field))
        write(varint: UInt64(text.utf8.count))
        bytes.append(text: text)
    }

    /// What is 0 is left out.
    mutating func write(_ field: UInt64, fixed64 value: UInt64) {
        guard value != 0 else { return }
        write(varint: ProtobufTag.fixed64(field))
        append(value.littleEndian)
    }

    /// What is 0 is left out.
    mutating func write(_ field: UInt64, fixed32 value: UInt32) {
        guard value != 0 else { return }
        write(varint: ProtobufTag.fixed32(field))
        append(value.littleEndian)
    }

    /// Part of the content that is being written: fields of it that were written before.
    mutating func append(_ content: [UInt8]) { bytes += content }

    /// Part of the content that is being written, the most significant byte first.
    mutating func append(bigEndian number: UInt64) { append(number.bigEndian) }

    private mutating func append(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) }
    }

    /// A message.
    mutating func write(_ field: UInt64, _ message: (inout ProtobufWriter) -> Void) {
        let start = begin(field)
        message(&self)
        end(contentFrom: start)
    }

    /// A text that is written piece by piece.
    mutating func write(_ field: UInt64, text: (inout [UInt8]) -> Void) {
        let start = begin(field)
        text(&bytes)
        end(contentFrom: start)
    }

    private mutating func begin(_ field: UInt64) -> Int {
        write(varint: ProtobufTag.content(field))
        // The length is known behind it, and has one byte nearly always.
        bytes.append(0)
        return bytes.count
    }

    private mutating func end(contentFrom start: Int) {
        var length = bytes.count - start
        var place = start - 1
        // Seven bits to a byte; one of them is there.
        let more = (Int.bitWidth - length.leadingZeroBitCount - 1) / 7
        if more > 0 { bytes.insert(contentsOf: repeatElement(0, count: more), at: start) }
        while length >= 0x80 {
            bytes[place] = UInt8(truncatingIfNeeded: length) | 0x80
            length >>= 7
            place += 1
        }
        bytes[place] = UInt8(length)
    }

    private mutating func write(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }
}
