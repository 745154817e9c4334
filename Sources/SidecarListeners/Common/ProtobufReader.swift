package import NIOCore

/// Reads a Protocol Buffers message field by field, where decoding all of it would take too much time or memory.
/// <https://protobuf.dev/programming-guides/encoding/>
/// Benchmark: `make bench-envoy`, decisions per second of the sidecar's processor time.
struct ProtobufReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { position >= bytes.count }

    /// Reads a number, or a tag as in `ProtobufTag`; `nil` if it is incomplete or too long.
    mutating func varint() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard position < bytes.count else { return nil }
            let byte = bytes[position]
            position += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }

    /// Reads content that begins with its length; `nil` if it is incomplete.
    mutating func content() -> UnsafeRawBufferPointer? {
        guard let length = varint(), length <= UInt64(bytes.count - position) else { return nil }
        defer { position += Int(length) }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<position + Int(length)])
    }

    /// Reads text; `nil` if it is incomplete or not UTF-8.
    mutating func text() -> String? { content().flatMap { String(validating: $0, as: UTF8.self) } }

    /// Skips the value after a tag.
    /// - Returns: whether the value was complete.
    mutating func skip(after tag: UInt64) -> Bool {
        switch tag & 7 {
        case 0: return varint() != nil
        case 1: position += 8
        case 2: return content() != nil
        case 3: return skipGroup()
        case 5: position += 4
        default: return false
        }
        return position <= bytes.count
    }

    /// Skips a group, a deprecated kind of field, and the groups within it. Counts the depth, because recursion could
    /// overflow the stack.
    private mutating func skipGroup() -> Bool {
        var depth = 1
        while depth > 0 {
            guard let tag = varint() else { return false }
            switch tag & 7 {
            case 3: depth += 1
            case 4: depth -= 1
            default: guard skip(after: tag) else { return false }
            }
        }
        return true
    }
}

extension ByteBuffer {
    /// Counts the fields at a path of field numbers, such as all entries within all descriptors, without decoding them.
    /// Stops where the message is malformed.
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
            guard reader.skip(after: tag) else { break }
        }
        return count
    }
}
