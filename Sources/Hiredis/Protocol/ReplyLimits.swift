/// What the client accepts from a server before it calls it a protocol violation.
public struct ReplyLimits: Hashable, Sendable {
    /// The longest bulk string, in bytes.
    public var bulkLength: Int
    /// The most elements of one array.
    public var arrayLength: Int
    /// The deepest nesting of arrays. hiredis 0.14 reads 7 levels and gives up past them.
    public var depth: Int
    /// The longest header, status, error or integer line, in bytes.
    public var lineLength: Int
    /// The longest reply as a whole, in bytes.
    public var replyLength: Int

    public init(
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
