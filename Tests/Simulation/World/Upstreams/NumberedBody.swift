import NIOCore

/// The bodies of calls through the proxy. Both sides of a call repeat its number, so that checks can detect a misplaced
/// byte.
enum NumberedBody {
    /// The field with a call's number.
    static let numberField = "x-call"
    /// The field with the size of a message's body, independent of its framing.
    static let sizeField = "x-size"
    /// The field with the status that an upstream sent.
    static let statusField = "x-status"

    private static func word(_ number: Int) -> [UInt8] { Array("\(number);".utf8) }

    /// Returns a body of about `size` bytes that consists of at least one complete word.
    static func make(_ number: Int, about size: Int) -> ByteBuffer {
        let word = word(number)
        let count = max(1, size / word.count)
        var body = ByteBuffer()
        body.reserveCapacity(count * word.count)
        for _ in 0..<count { body.writeBytes(word) }
        return body
    }

    /// Returns the index of the first byte that does not belong to this call's body; `nil` if all bytes do.
    static func firstStrayByte(in body: some Collection<UInt8>, of number: Int) -> Int? {
        let word = word(number)
        var wordIndex = 0
        for (index, byte) in body.enumerated() {
            guard byte == word[wordIndex] else { return index }
            wordIndex = wordIndex + 1 == word.count ? 0 : wordIndex + 1
        }
        return nil
    }

    /// Returns the part of a body around a position, for a finding.
    static func excerpt(_ body: some Collection<UInt8>, at position: Int) -> String {
        String(decoding: body.dropFirst(max(0, position - 8)).prefix(24), as: UTF8.self).debugDescription
    }
}

extension ByteBuffer {
    /// Splits a message into up to `count` parts, for separate writes.
    func parts(_ count: Int) -> [ByteBuffer] {
        guard readableBytes > 0 else { return [] }
        var remaining = self
        let size = max(1, (readableBytes + count - 1) / count)
        var parts: [ByteBuffer] = []
        while remaining.readableBytes > 0, let part = remaining.readSlice(length: min(size, remaining.readableBytes)) {
            parts.append(part)
        }
        return parts
    }
}
