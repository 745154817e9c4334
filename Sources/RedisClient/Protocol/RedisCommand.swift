internal import CLibMD

/// A command of Redis: how its arguments are written, and what its reply means.
package protocol RedisCommand {
    associatedtype Reply

    /// Which of the arguments is the first key, the command's name being 0; `nil`, the default: none is. All keys of a command are in
    /// one slot.
    var firstKey: Int? { get }

    /// Appends the command's name and its arguments.
    func encode(into encoder: inout CommandEncoder)

    /// The digest of the script that the command runs, which the server may not know; `nil`, the default, for no
    /// script.
    var scriptDigest: String? { get }

    /// Appends the command with the source of its script in place of the digest.
    func encodeWithSource(into encoder: inout CommandEncoder)

    /// Reads the reply, which is never an error reply.
    /// - Throws: `unexpectedReply` when it does not have the command's shape.
    func decode(_ reply: RedisReply) throws(RedisError) -> Reply
}

extension RedisCommand {
    package var firstKey: Int? { nil }
    package var scriptDigest: String? { nil }

    package func encodeWithSource(into encoder: inout CommandEncoder) { encode(into: &encoder) }
}

/// A command whose first argument is its key.
package protocol KeyCommand: NamedCommand {
    var key: String { get }
}

extension KeyCommand {
    package var firstKey: Int? { 1 }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append(Self.words[0])
        encoder.append(key)
        encodeArguments(into: &encoder)
    }
}
