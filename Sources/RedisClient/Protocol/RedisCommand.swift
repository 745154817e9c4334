internal import CLibMD

/// A Redis command: encodes its arguments and decodes its reply.
package protocol RedisCommand {
    associatedtype Reply

    /// The index of the first key among the arguments, with the command's name at 0; `nil` (the default) if there is
    /// none. All keys of a command are in one hash slot.
    var firstKey: Int? { get }

    /// Appends the command's name and its arguments.
    func encode(into encoder: inout CommandEncoder)

    /// The digest of the script that the command runs, which the server may not know; `nil` (the default) if it runs
    /// none.
    var scriptDigest: String? { get }

    /// Appends the command with the script's source instead of its digest.
    func encodeWithSource(into encoder: inout CommandEncoder)

    /// Decodes the reply, which is never an error reply, except for `AnyCommand`.
    /// - Throws: `unexpectedReply` if the reply does not have the command's shape.
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
        encoder.append(Self.nameParts[0])
        encoder.append(key)
        encodeArguments(into: &encoder)
    }
}
