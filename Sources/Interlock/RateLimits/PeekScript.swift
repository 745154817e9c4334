internal import InterlockCore
internal import RedisClient

/// Reads counters without taking anything. See `peek.lua`.
struct PeekScript: ScriptCommand {
    static let source = RedisScript(library: "peek")

    struct Counter {
        /// The usage of the limit.
        var taken: Int64
        /// The time until the counter resets, in milliseconds.
        var resetAfterMilliseconds: Int64
        /// The time until a call of cost 1 would be granted; 0 if it would be granted now.
        var retryAfterMicroseconds: Int64
    }

    var keyNames: [String]
    /// The limit of each key.
    var limits: [LimitDefinition]

    var script: RedisScript { Self.source }
    var keyCount: Int { keyNames.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for key in keyNames { encoder.append(key) }
        for limit in limits {
            encoder.append(limit.algorithm.scriptNumber)
            encoder.append(limit.capacity)
            encoder.append(limit.limit)
            encoder.append(limit.windowMilliseconds)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> [Counter] {
        let numbers = reply.array?.compactMap(\.integer) ?? []
        guard numbers.count == 3 * keyNames.count else { throw reply.unexpected(for: Self.source.name) }
        return stride(from: 0, to: numbers.count, by: 3).map {
            Counter(taken: numbers[$0], resetAfterMilliseconds: numbers[$0 + 1], retryAfterMicroseconds: numbers[$0 + 2])
        }
    }
}
