package import NIOCore

extension ByteBuffer {
    /// Appends bytes, and reuses the space of bytes that were already read. `writeBuffer` never reuses it, so the
    /// buffer of a connection whose reads rarely end with a message would grow without limit.
    package mutating func append(unread more: ByteBuffer) {
        guard readableBytes > 0 else {
            self = more
            return
        }
        if writableBytes < more.readableBytes { discardReadBytes() }
        writeImmutableBuffer(more)
    }
}
