internal import InterlockCore
internal import RedisClient

/// Runs `CL.THROTTLE` against one key. See `throttle.lua`.
struct ThrottleScript: ScriptCommand {
    static let source = RedisScript(library: "throttle")

    var key: String
    var request: ThrottleRequest

    var script: RedisScript { Self.source }
    var keyCount: Int { 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(key)
        encoder.append(request.rate.capacity)
        encoder.append(request.rate.limit)
        encoder.append(request.rate.windowMicroseconds)
        encoder.append(request.quantity)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> ThrottleResult {
        let numbers = reply.array?.compactMap(\.integer) ?? []
        guard numbers.count == 5 else { throw reply.unexpected(for: Self.source.name) }
        return ThrottleResult(
            isLimited: numbers[0] != 0, limit: numbers[1], remaining: numbers[2], retryAfterSeconds: numbers[3],
            resetAfterSeconds: numbers[4])
    }
}
