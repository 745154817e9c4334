package import NIOCore

/// Where frames of HTTP/2 end in what a peer sends (RFC 9113, section 4.1). Pure.
///
/// NIO's parser gives the room of frames that it has read back only where what came ends together with a frame, or within the content of
/// a `DATA` frame: as long as a peer's frames end elsewhere, its buffer grows by all that is sent.
package struct FrameBoundaries {
    /// What a client sends before its first frame, in bytes.
    package static let prefaceLength = 24
    /// The most of one frame that is handed on at once, in bytes.
    private static let mostOfFrame = 1 << 14
    /// A frame begins with its length, which does not count what else stands before its content, with its type and its flags.
    private static let headLength = 5
    private static let restOfHead = 4
    /// In bytes: behind so many without one that was an end as well, the next end is made one.
    private static let mostUncut = 1 << 16

    /// In bytes, of what is on its way; 0: what comes next is the head of a frame.
    private var left: Int
    private var head: UInt64 = 0
    private var headSeen = 0
    private var isEnd = true
    private var uncut = 0

    /// - Parameter prefaceLength: of what comes before the first frame, in bytes.
    package init(prefaceLength: Int) {
        left = prefaceLength
    }

    /// - Returns: what came next, and what of it is to be handed on by itself, behind the other; `nil`: nothing is.
    package mutating func parts(_ bytes: ByteBuffer) -> (first: ByteBuffer, rest: ByteBuffer?) {
        var rest = bytes
        guard let end = bytes.withUnsafeReadableBytes({ cut($0) }), let first = rest.readSlice(length: end) else {
            return (bytes, nil)
        }
        return (first, rest)
    }

    /// The number of bytes to hand on next: up to the last end of a frame among the first `length`. Where a frame goes on beyond
    /// them, what has come of it, up to 16 KiB.
    package mutating func lengthOfNext(_ bytes: UnsafeRawBufferPointer, about length: Int) -> Int {
        let first = UnsafeRawBufferPointer(rebasing: bytes.prefix(length))
        var walked = self
        if let end = walked.lastEnd(in: first), end < first.count {
            _ = lastEnd(in: UnsafeRawBufferPointer(rebasing: bytes.prefix(end)))
            return end
        }
        self = walked
        let more = min(left, bytes.count - first.count, Self.mostOfFrame)
        left -= more
        return first.count + more
    }

    /// - Returns: where to cut, in what came next, so that its first part ends with a frame; `nil`: there is no need.
    private mutating func cut(_ bytes: UnsafeRawBufferPointer) -> Int? {
        uncut += bytes.count
        guard let end = lastEnd(in: bytes), end == bytes.count || uncut >= Self.mostUncut else { return nil }
        uncut = bytes.count - end
        return end == bytes.count ? nil : end
    }

    /// Behind `HEADERS`, `PUSH_PROMISE` and `CONTINUATION` without `END_HEADERS` the parser goes on as within a frame.
    private static func areFieldsOpen(type: UInt64, flags: UInt64) -> Bool {
        flags & 4 == 0 && (type == 1 || type == 5 || type == 9)
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
                if isEnd { end = place }
            }
            while headSeen < Self.headLength {
                guard place < bytes.count else { return end }
                head = head << 8 | UInt64(bytes[place])
                headSeen += 1
                place += 1
            }
            left = Self.restOfHead + Int(head >> 16)
            isEnd = !Self.areFieldsOpen(type: head >> 8 & 0xFF, flags: head & 0xFF)
            head = 0
            headSeen = 0
        }
    }
}

/// Hands a server's bytes on so that the parser of frames behind it keeps its buffer short.
package final class FrameCutter: ChannelInboundHandler {
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
