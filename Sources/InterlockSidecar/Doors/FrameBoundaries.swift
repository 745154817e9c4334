internal import NIOCore

/// Where frames of HTTP/2 end in what a client sends (RFC 9113, section 4.1). Pure.
///
/// NIO's parser gives the room of frames that it has read back only where what came ends together with a frame, or within the content of
/// a `DATA` frame: as long as a client's frames end elsewhere, its buffer grows by all that is sent.
struct FrameBoundaries {
    /// Of a connection, before its first frame.
    private static let prefaceLength = 24
    /// A frame begins with its length, which does not count what else stands before its content.
    private static let lengthBytes = 3
    private static let restOfHead = 6
    /// In bytes: behind so many without one that was an end as well, the next end is made one.
    private static let mostUncut = 1 << 16

    /// In bytes, of the frame that is on its way; 0: what comes next is the length of one.
    private var left = prefaceLength
    private var length = 0
    private var lengthSeen = 0
    private var uncut = 0

    /// - Returns: where to cut, in what came next, so that its first part ends with a frame; `nil`: there is no need.
    mutating func cut(_ bytes: UnsafeRawBufferPointer) -> Int? {
        uncut += bytes.count
        guard let end = lastEnd(in: bytes), end == bytes.count || uncut >= Self.mostUncut else { return nil }
        uncut = bytes.count - end
        return end == bytes.count ? nil : end
    }

    private mutating func lastEnd(in bytes: UnsafeRawBufferPointer) -> Int? {
        var place = 0
        var end: Int?
        while true {
            if left > 0 {
                let step = min(left, bytes.count - place)
                place += step
                left -= step
                guard left == 0 else { return end }
                end = place
            }
            while lengthSeen < Self.lengthBytes {
                guard place < bytes.count else { return end }
                length = length << 8 | Int(bytes[place])
                lengthSeen += 1
                place += 1
            }
            left = Self.restOfHead + length
            length = 0
            lengthSeen = 0
        }
    }
}

extension FrameBoundaries {
    /// - Returns: what came next, and what of it is to be handed on by itself, behind the other; `nil`: nothing is.
    mutating func parts(_ bytes: ByteBuffer) -> (first: ByteBuffer, rest: ByteBuffer?) {
        var rest = bytes
        guard let end = bytes.withUnsafeReadableBytes({ cut($0) }), let first = rest.readSlice(length: end) else {
            return (bytes, nil)
        }
        return (first, rest)
    }
}
