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

/// A command that begins with fixed words.
package protocol NamedCommand: RedisCommand {
    /// The command's name, in one word or two.
    static var words: [String] { get }

    /// Appends the arguments that follow the name and, where there is one, the key.
    func encodeArguments(into encoder: inout CommandEncoder)
}

extension NamedCommand {
    package func encodeArguments(into encoder: inout CommandEncoder) {}

    package func encode(into encoder: inout CommandEncoder) {
        for word in Self.words { encoder.append(word) }
        encodeArguments(into: &encoder)
    }

    private var name: String { Self.words.joined(separator: " ") }

    /// The error for a reply that does not have the command's shape.
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

/// A Lua script and the digest that Redis knows it by.
package struct RedisScript: Sendable {
    /// For messages: the file's name.
    package let name: String
    package let source: [UInt8]
    /// SHA-1 of the source in hexadecimal, as `EVALSHA` takes it.
    package let digest: String

    package init(name: String, source: [UInt8]) {
        self.name = name
        self.source = source
        // SHA-1 is what Redis names scripts by; nothing here rests on it being hard to break.
        var text = [CChar](repeating: 0, count: 2 * Int(SHA1_DIGEST_LENGTH) + 1)
        SHA1Data(source, source.count, &text)
        digest = String(decoding: text.dropLast().map(UInt8.init), as: UTF8.self)
    }
}

/// A command that runs a script. The pipeline sends `EVALSHA`; when Redis does not know the script it was not run, and
/// goes again as `EVAL`, which also loads it.
package protocol ScriptCommand: RedisCommand {
    var script: RedisScript { get }

    /// How many of the arguments are keys; they come first.
    var keyCount: Int { get }

    /// Appends the keys, then the arguments.
    func encodeArguments(into encoder: inout CommandEncoder)
}

extension ScriptCommand {
    package var firstKey: Int? { keyCount > 0 ? 3 : nil }
    package var scriptDigest: String? { script.digest }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("EVALSHA")
        encoder.append(script.digest)
        encoder.append(keyCount)
        encodeArguments(into: &encoder)
    }

    package func encodeWithSource(into encoder: inout CommandEncoder) {
        encoder.append("EVAL")
        encoder.append(script.source)
        encoder.append(keyCount)
        encodeArguments(into: &encoder)
    }
}

extension ScriptCommand where Reply == Int64 {
    package func decode(_ reply: RedisReply) throws(RedisError) -> Int64 { try reply.integer(for: script.name) }
}

extension ScriptCommand where Reply == Bool {
    package func decode(_ reply: RedisReply) throws(RedisError) -> Bool { try reply.integer(for: script.name) == 1 }
}

/// Any command by its words, for tools that pass on what a person typed; its reply is handed out as it came.
package struct AnyCommand: RedisCommand, Sendable {
    package var arguments: [String]

    package init(_ arguments: [String]) {
        precondition(!arguments.isEmpty, "a command has a name")
        self.arguments = arguments
    }

    package func encode(into encoder: inout CommandEncoder) {
        for argument in arguments { encoder.append(argument) }
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}
