internal import CLibMD

/// A command that begins with a fixed name.
package protocol NamedCommand: RedisCommand {
    /// The words of the command's name: one or two.
    static var nameParts: [String] { get }

    /// Appends the arguments after the name and the key, if any.
    func encodeArguments(into encoder: inout CommandEncoder)
}

extension NamedCommand {
    package func encodeArguments(into encoder: inout CommandEncoder) {}

    package func encode(into encoder: inout CommandEncoder) {
        for part in Self.nameParts { encoder.append(part) }
        encodeArguments(into: &encoder)
    }

    private var name: String { Self.nameParts.joined(separator: " ") }

    /// Returns the error for a reply that this command cannot have.
    func unexpected(_ reply: RedisReply) -> RedisError { reply.unexpected(for: name) }
}

extension NamedCommand where Reply == Void {
    package func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw unexpected(reply) }
    }
}

extension NamedCommand where Reply == Int64 {
    package func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        try reply.integer(for: name)
    }
}

extension NamedCommand where Reply == Bool {
    package func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        try reply.integer(for: name) == 1
    }
}
