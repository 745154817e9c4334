/// The limits of a reply. A larger reply is a protocol violation.
package struct ReplyLimits: Hashable, Sendable {
    /// The maximum length of a bulk string, in bytes.
    package var bulkLength: Int
    /// The maximum number of elements of an array.
    package var arrayLength: Int
    /// The maximum nesting depth of arrays. hiredis 0.14 supports 7 levels.
    package var depth: Int
    /// The maximum length of a header, status, error or integer line, in bytes.
    package var lineLength: Int
    /// The maximum length of a complete reply, in bytes.
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
