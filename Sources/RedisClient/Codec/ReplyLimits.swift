/// The limits of a reply. The client treats a larger one as a protocol violation.
package struct ReplyLimits: Hashable, Sendable {
    /// The longest bulk string, in bytes.
    package var bulkLength: Int
    /// The most elements of one array.
    package var arrayLength: Int
    /// The deepest nesting of arrays. hiredis 0.14 reads 7 levels and gives up past them.
    package var depth: Int
    /// The longest header, status, error or integer line, in bytes.
    package var lineLength: Int
    /// The longest reply as a whole, in bytes.
    package var replyLength: Int

    package init(
        bulkLength: Int = 16 << 20,
        arrayLength: Int = 1 << 20,
        depth: Int = 7,
        lineLength: Int = 64 << 10,
        replyLength: Int = 64 << 20
    ) {
        self.bulkLength = bulkLength
        self.arrayLength = arrayLength
        self.depth = depth
        self.lineLength = lineLength
        self.replyLength = replyLength
    }
}
