package import NIOCore

extension ByteBuffer {
    /// Adds bytes behind the unread ones. They take the room of bytes that were read: `writeBuffer` alone never does, so a buffer whose
    /// reads seldom end where a message ends would grow with all that a connection ever sends.
    package mutating func append(unread more: ByteBuffer) {
        guard readableBytes > 0 else {
            self = more
            return
        }
        if writableBytes < more.readableBytes { discardReadBytes() }
        writeImmutableBuffer(more)
    }
}
