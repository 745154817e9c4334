internal import CLibMD

/// Any command, given by its name and arguments. Returns the reply undecoded, even an error reply.
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
