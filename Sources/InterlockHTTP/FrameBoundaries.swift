package import NIOCore

/// Finds the ends of HTTP/2 frames in the bytes of a peer (RFC 9113, section 4.1). Pure.
///
/// NIO's parser frees the space of parsed frames only if its input ends together with a frame, or within the content of
/// a `DATA` frame. While a peer's bytes end elsewhere, the parser's buffer grows with everything that is sent.
package struct FrameBoundaries {
    /// The length of a client's connection preface, in bytes.
    package static let prefaceLength = 24
    /// The maximum number of bytes of one frame in a part.
    private static let maximumFramePart = 1 << 14
    /// The size of a frame's length, type and flags, in bytes. The length counts only the frame's content.
    private static let parsedHeadLength = 5
    private static let skippedHeadLength = 4
    /// After this many bytes without a part that ends with a frame, the input is cut at the next end of a frame.
    private static let maximumUncut = 1 << 16

    /// The remaining bytes of the preface or of a frame; 0 if the head of a frame comes next.
    private var remaining: Int
    /// The bytes of an incomplete frame head, as a big-endian number.
    private var head: UInt64 = 0
    private var headBytesRead = 0
    /// Whether the input may be cut after the current frame.
    private var allowsCutAfterFrame = true
    /// The number of bytes since the last cut, or since the last part that ended with a frame.
    private var uncutLength = 0

    /// Creates the state at the start of a peer's bytes.
    /// - Parameter prefaceLength: the length of the preface before the first frame, in bytes.
    package init(prefaceLength: Int) {
        remaining = prefaceLength
    }

    /// Returns the bytes in one part, or in two parts to pass on in turn.
    package mutating func parts(_ bytes: ByteBuffer) -> (first: ByteBuffer, rest: ByteBuffer?) {
        var unread = bytes
        guard let end = bytes.withUnsafeReadableBytes({ cut($0) }), let first = unread.readSlice(length: end) else {
            return (bytes, nil)
        }
        return (first, unread)
    }

    /// Returns the length of the next part: up to the last end of a frame within the first `length` bytes. If no frame
    /// ends there, the part has all `length` bytes, and up to 16 KiB more of the same frame.
    package mutating func lengthOfNextPart(_ bytes: UnsafeRawBufferPointer, targetLength length: Int) -> Int {
        let first = UnsafeRawBufferPointer(rebasing: bytes.prefix(length))
        var lookahead = self
        if let end = lookahead.lastEnd(in: first), end < first.count {
            _ = lastEnd(in: UnsafeRawBufferPointer(rebasing: bytes.prefix(end)))
            return end
        }
        self = lookahead
        let extraLength = min(remaining, bytes.count - first.count, Self.maximumFramePart)
        remaining -= extraLength
        return first.count + extraLength
    }

    /// Returns the offset at which to cut the bytes, so that their first part ends with a frame; `nil` if no cut is
    /// needed.
    private mutating func cut(_ bytes: UnsafeRawBufferPointer) -> Int? {
        uncutLength += bytes.count
        guard let end = lastEnd(in: bytes), end == bytes.count || uncutLength >= Self.maximumUncut else { return nil }
        uncutLength = bytes.count - end
        return end == bytes.count ? nil : end
    }

    /// Returns whether the parser stays within a frame: after `HEADERS`, `PUSH_PROMISE` or `CONTINUATION` without
    /// `END_HEADERS`.
    private static func isHeaderBlockOpen(type: UInt64, flags: UInt64) -> Bool {
        flags & 4 == 0 && (type == 1 || type == 5 || type == 9)
    }

    /// Advances past `bytes`, and returns the offset after the last frame in them at whose end the input may be cut;
    /// `nil` if there is no such frame.
    private mutating func lastEnd(in bytes: UnsafeRawBufferPointer) -> Int? {
        var position = 0
        var end: Int?
        while true {
            if remaining > 0 {
                let step = min(remaining, bytes.count - position)
                position += step
                remaining -= step
                guard remaining == 0 else { return end }
                if allowsCutAfterFrame { end = position }
            }
            while headBytesRead < Self.parsedHeadLength {
                guard position < bytes.count else { return end }
                head = head << 8 | UInt64(bytes[position])
                headBytesRead += 1
                position += 1
            }
            remaining = Self.skippedHeadLength + Int(head >> 16)
            allowsCutAfterFrame = !Self.isHeaderBlockOpen(type: head >> 8 & 0xFF, flags: head & 0xFF)
            head = 0
            headBytesRead = 0
        }
    }
}

/// Splits a server's bytes so that the buffer of the frame parser stays small.
package final class FrameSplitter: ChannelInboundHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer

    private var boundaries: FrameBoundaries

    package init() {
        boundaries = FrameBoundaries(prefaceLength: 0)
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let (first, rest) = boundaries.parts(unwrapInboundIn(data))
        context.fireChannelRead(wrapInboundOut(first))
        if let rest { context.fireChannelRead(wrapInboundOut(rest)) }
    }
}
