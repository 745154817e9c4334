internal import CLibMD

/// Any command by its words, for tools that pass on what a user typed. The reply is returned undecoded.
package struct AnyCommand: RedisCommand, Sendable {
    package var arguments: [String]

    package init(_ arguments: [String]) {
        precondition(!arguments.isEmpty, "a command needs a name")
        self.arguments = arguments
    }

    package func encode(into encoder: inout CommandEncoder) {
        for argument in arguments { encoder.append(argument) }
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}
