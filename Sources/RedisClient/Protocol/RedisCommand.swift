internal import CLibMD

/// A Redis command: encodes its arguments and decodes its reply.
package protocol RedisCommand {
    associatedtype Reply

    /// The index of the first key among the arguments, with the command's name at 0; `nil` (the default) for a command
    /// without keys. All keys of a command are in one hash slot.
    var firstKeyIndex: Int? { get }

    /// Appends the command's name and its arguments.
    func encode(into encoder: inout CommandEncoder)

    /// The digest of the script that the command runs, which the server may not know; `nil` (the default) for a command
    /// that runs no script.
    var scriptDigest: String? { get }

    /// Appends the command with the script's source instead of its digest.
    func encodeWithSource(into encoder: inout CommandEncoder)

    /// Decodes the reply. Only `AnyCommand` gets error replies; for other commands, the call fails instead.
    /// - Throws: `unexpectedReply` if the reply does not have the command's shape.
    func decode(_ reply: RedisReply) throws(RedisError) -> Reply
}

extension RedisCommand {
    package var firstKeyIndex: Int? { nil }
    package var scriptDigest: String? { nil }

    package func encodeWithSource(into encoder: inout CommandEncoder) { encode(into: &encoder) }
}

/// A command whose first argument is its key.
package protocol KeyCommand: NamedCommand {
    var key: String { get }
}

extension KeyCommand {
    package var firstKeyIndex: Int? { 1 }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append(Self.nameParts[0])
        encoder.append(key)
        encodeArguments(into: &encoder)
    }
}
