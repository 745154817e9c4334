import Hiredis
import InterlockCore

/// What a limit answers: the numbers of the window that binds.
struct LimitReading: Answer, Sendable {
    var service: String
    var isLimited: Bool
    var limit: Int64
    var remaining: Int64
    /// -1: at once.
    var retryAfterMilliseconds: Int64
    var resetAfterMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case service, limit, remaining
        case isLimited = "limited"
        case retryAfterMilliseconds = "retry_after_ms"
        case resetAfterMilliseconds = "reset_after_ms"
    }

    /// When to try again, for people; empty: at once.
    var retryAfter: String {
        retryAfterMilliseconds < 0 ? "" : ReadableText.span(milliseconds: retryAfterMilliseconds)
    }

    var table: String {
        Table([
            "service": service,
            "limited": isLimited ? "yes" : "no",
            "limit": "\(limit)",
            "remaining": "\(remaining)",
            "retry after": retryAfter,
            "reset after": ReadableText.span(milliseconds: resetAfterMilliseconds),
        ]).text
    }
}

/// `LIMIT.TAKE service [COST n] [SUBJECT s] [WAIT ms]`.
struct TakeLimit: SidecarCommand {
    var service: String
    var cost: Int64
    var subject: String?
    var wait: Duration

    var purpose: String { "limit take \(service)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LIMIT.TAKE")
        encoder.append(service)
        encoder.append("COST")
        encoder.append(cost)
        if let subject {
            encoder.append("SUBJECT")
            encoder.append(subject)
        }
        encoder.append("WAIT")
        encoder.append(wait.wholeMilliseconds)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> LimitReading {
        guard let reading = LimitReading(service: service, reply) else { throw reply.unexpected(for: "LIMIT.TAKE") }
        return reading
    }
}

/// `LIMIT.PEEK service [SUBJECT s]`: the same answer, taking nothing.
struct PeekLimit: SidecarCommand {
    var service: String
    var subject: String?

    var purpose: String { "limit show \(service)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LIMIT.PEEK")
        encoder.append(service)
        if let subject {
            encoder.append("SUBJECT")
            encoder.append(subject)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> LimitReading {
        guard let reading = LimitReading(service: service, reply) else { throw reply.unexpected(for: "LIMIT.PEEK") }
        return reading
    }
}

extension LimitReading {
    /// `[limited 0/1, limit, remaining, retry-after-ms (-1 if taken), reset-after-ms]`; `nil` when the reply is not that.
    fileprivate init?(service: String, _ reply: RedisReply) {
        guard let numbers = reply.array?.compactMap(\.integer), numbers.count == 5 else { return nil }
        self.init(
            service: service, isLimited: numbers[0] != 0, limit: numbers[1], remaining: numbers[2],
            retryAfterMilliseconds: numbers[3], resetAfterMilliseconds: numbers[4])
    }
}
