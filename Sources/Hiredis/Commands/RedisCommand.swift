/// A command of Redis: how its arguments are written, and what its reply means.
public protocol RedisCommand {
    associatedtype Reply

    /// Appends the command's name and its arguments.
    func encode(into encoder: inout CommandEncoder)

    /// Reads the reply, which is never an error reply.
    /// - Throws: `unexpectedReply` when it does not have the command's shape.
    func decode(_ reply: RedisReply) throws(RedisError) -> Reply
}
