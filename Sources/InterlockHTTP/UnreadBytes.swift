package import NIOCore

extension ByteBuffer {
    /// Appends bytes to the unread ones, and reuses the space of bytes that were read. `writeBuffer` alone never does:
    /// a buffer whose reads rarely end with a message would grow with everything that a connection ever receives.
    package mutating func append(unread more: ByteBuffer) {
        guard readableBytes > 0 else {
            self = more
            return
        }
        if writableBytes < more.readableBytes { discardReadBytes() }
        writeImmutableBuffer(more)
    }
}
