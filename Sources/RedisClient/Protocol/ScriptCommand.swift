internal import CLibMD

/// A command that runs a script. The pipeline sends `EVALSHA`. If Redis does not know the script, it runs nothing, and
/// the pipeline sends `EVAL`, which also loads the script.
package protocol ScriptCommand: RedisCommand {
    var script: RedisScript { get }

    /// The number of keys, which precede the other arguments.
    var keyCount: Int { get }

    /// Appends the keys, then the arguments.
    func encodeArguments(into encoder: inout CommandEncoder)
}

extension ScriptCommand {
    package var firstKeyIndex: Int? { keyCount > 0 ? 3 : nil }
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
