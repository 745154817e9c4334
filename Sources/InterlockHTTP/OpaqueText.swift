internal import NIOCore
internal import NIOHTTP1

/// Converts the bytes of a field to text and back, without loss. Pure.
///
/// A field may contain any byte above 127 (RFC 9110, section 5.5), but a Swift string contains only valid UTF-8. Each
/// byte that is not part of a valid sequence becomes one of 128 private-use characters, U+10FF80 to U+10FFFF. Valid
/// text is unchanged.
package enum OpaqueText {
    /// The code point whose sum with a byte is the character that represents the byte.
    private static let base: UInt32 = 0x10FF00
    /// The lowest first UTF-8 byte among these characters and U+FFFD, with which Swift replaces invalid bytes.
    private static let firstSuspect: UInt8 = 0xEF

    /// Returns the text that represents these bytes.
    package static func text(of bytes: some Collection<UInt8>) -> String {
        var text = ""
        var parser = Unicode.UTF8.ForwardParser()
        var iterator = bytes.makeIterator()
        var position = bytes.startIndex
        /// Appends the next `count` bytes, each as the character that represents it.
        func escape(_ count: Int) {
            let end = bytes.index(position, offsetBy: count)
            for byte in bytes[position..<end] {
                // Never `nil`: the range contains no surrogates.
                if let scalar = Unicode.Scalar(base + UInt32(byte)) { text.unicodeScalars.append(scalar) }
            }
            position = end
        }
        while true {
            switch parser.parseScalar(from: &iterator) {
            case .emptyInput: return text
            case .error(let length): escape(length)
            case .valid(let encoded):
                let scalar = Unicode.UTF8.decode(encoded)
                if scalar.value >= base + 0x80 {
                    escape(encoded.count)
                } else {
                    text.unicodeScalars.append(scalar)
                    position = bytes.index(position, offsetBy: encoded.count)
                }
            }
        }
    }

    /// Returns whether the text may contain repaired or escaped bytes, and needs a closer check.
    static func mayContainEscapes(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in hasHighBits(UnsafeRawBufferPointer(bytes)) && bytes.contains { $0 >= firstSuspect } }
    }

    /// Returns whether the text has a byte above 127, or space at an end.
    static func mayNeedRepair(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            guard let first = bytes.first, let last = bytes.last else { return false }
            return isSpace(first) || isSpace(last) || hasHighBits(UnsafeRawBufferPointer(bytes))
        }
    }

    /// Returns whether a byte is above 127. Every field is checked, so this reads eight bytes at a time.
    static func hasHighBits(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var position = 0
        while position + 8 <= bytes.count {
            if bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self) & 0x8080_8080_8080_8080 != 0 { return true }
            position += 8
        }
        while position < bytes.count {
            if bytes[position] > 127 { return true }
            position += 1
        }
        return false
    }

    /// Returns whether the text contains characters that represent bytes.
    static func isEscaped(_ text: String) -> Bool {
        mayContainEscapes(text) && text.unicodeScalars.contains { $0.value >= base + 0x80 }
    }

    /// Returns the bytes that a result of `text(of:)` represents.
    /// - Parameter text: the UTF-8 bytes of the text.
    package static func bytes(of text: some Collection<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var remaining = text[...]
        while let byte = remaining.popFirst() {
            if byte == 0xF4, let second = remaining.first, second == 0x8F {
                let escape = remaining.prefix(3)
                if escape.count == 3, let third = escape.dropFirst().first, third == 0xBE || third == 0xBF,
                    let fourth = escape.dropFirst(2).first
                {
                    bytes.append(0x80 | (third & 1) << 6 | fourth & 0x3F)
                    remaining = remaining.dropFirst(3)
                    continue
                }
            }
            bytes.append(byte)
        }
        return bytes
    }

    /// Replaces the characters that represent bytes with the Latin-1 characters of those bytes: the best approximation
    /// where only text can be sent.
    package static func readable(_ text: String) -> String {
        var readable = ""
        for scalar in text.unicodeScalars {
            let byte = scalar.value &- base
            readable.unicodeScalars.append(0x80...0xFF ~= byte ? Unicode.Scalar(UInt8(byte)) : scalar)
        }
        return readable
    }

    /// Returns the fields with `readable` values.
    static func readable(_ fields: HTTPHeaders) -> HTTPHeaders {
        guard fields.contains(where: { isEscaped($0.value) }) else { return fields }
        return HTTPHeaders(fields.map { ($0.name, readable($0.value)) })
    }

    /// Returns the text without space at its ends, which is not part of a field's value (RFC 9110, section 5.5), or
    /// `nil` if the text has no such space.
    package static func trimmed(_ text: String) -> String? {
        var text = text
        let (start, end) = text.withUTF8 { bytes in
            var (start, end) = (0, bytes.count)
            while start < end, isSpace(bytes[start]) { start += 1 }
            while end > start, isSpace(bytes[end - 1]) { end -= 1 }
            return (start, end)
        }
        guard start > 0 || end < text.utf8.count else { return nil }
        let from = text.utf8.index(text.startIndex, offsetBy: start)
        return String(text[from..<text.utf8.index(from, offsetBy: end - start)])
    }

    static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
}

/// The received bytes of a message's head or trailers, from which values that the decoder repaired are restored. Pure.
struct RawFields {
    /// The maximum number of buffered bytes of a head that arrives in pieces.
    private static let maximumLength = 512 * 1024

    private var bytes = ByteBuffer()
    /// The offset of the next field. Fields are decoded in the order of their arrival.
    private var position = 0

    mutating func append(_ more: ByteBuffer) {
        if bytes.readableBytes == 0 {
            bytes = more
            position = 0
        } else if bytes.readableBytes + more.readableBytes <= Self.maximumLength {
            bytes.writeImmutableBuffer(more)
        } else {
            self = RawFields()
        }
    }

    mutating func clear() { if bytes.readableBytes > 0 { self = RawFields() } }

    /// Returns the value of the next field with this name that decodes to `value`, with each byte preserved, or `nil`
    /// if no field matches.
    mutating func value(of name: String, decodedAs value: String) -> String? {
        let view = bytes.readableBytesView
        var start = view.startIndex + position
        while start < view.endIndex {
            let end = view[start...].firstIndex(of: UInt8(ascii: "\n")) ?? view.endIndex
            let line = view[start..<end]
            start = min(view.endIndex, end + 1)
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), line[..<colon].elementsEqual(name.utf8) else { continue }
            var raw = line[(colon + 1)...]
            while let last = raw.last, OpaqueText.isSpace(last) || last == UInt8(ascii: "\r") { raw = raw.dropLast() }
            while let first = raw.first, OpaqueText.isSpace(first) { raw = raw.dropFirst() }
            guard String(decoding: raw, as: UTF8.self).utf8.elementsEqual(value.utf8) else { continue }
            position = start - view.startIndex
            return OpaqueText.text(of: raw)
        }
        return nil
    }
}
