package import Hiredis
internal import InterlockCore

/// What the limits of a service say of a call: the numbers of the window that binds, the one with the least left.
public struct SidecarLimit: Hashable, Sendable {
    /// The service's name.
    public var service: String
    /// The call may be made; it was counted unless the limits were only looked at.
    public var isGranted: Bool
    /// How many calls the window allows.
    public var limit: Int64
    /// How many are left in it.
    public var remaining: Int64
    /// When to try again; `nil`: the call was granted, or, from a sidecar older than 0.2.0, its cost is above the limit.
    public var retryAfter: Duration?
    /// When the window is whole again.
    public var resetAfter: Duration

    /// `[limited 0/1, limit, remaining, retry-after-ms (-1 if taken), reset-after-ms]`; `nil` when the reply is not that.
    fileprivate init?(service: String, _ reply: RedisReply) {
        guard case .array(let parts) = reply, parts.count == 5, let isLimited = parts[0].integer, let limit = parts[1].integer,
            let remaining = parts[2].integer, let retryAfter = parts[3].integer, let resetAfter = parts[4].integer
        else { return nil }
        self.service = service
        isGranted = isLimited == 0
        self.limit = limit
        self.remaining = remaining
        self.retryAfter = retryAfter < 0 ? nil : .milliseconds(retryAfter)
        self.resetAfter = .milliseconds(resetAfter)
    }
}

/// What a take and a permit say of the upstream call that is to be made.
package struct UpstreamCallRequest: Sendable {
    package var service: String
    /// How many calls it counts as.
    package var cost: Int64
    package var subject: String?
    package var wait: Duration

    package init(service: String, cost: Int64 = 1, subject: String? = nil, wait: Duration = .zero) {
        self.service = service
        self.cost = cost
        self.subject = subject
        self.wait = wait
    }

    /// A sidecar puts plain takes together: what is the default is left out.
    func encode(into encoder: inout CommandEncoder) {
        encoder.append(service)
        if cost != 1 {
            encoder.append("COST")
            encoder.append(cost)
        }
        if let subject { encoder.append("SUBJECT", subject) }
        if wait > .zero { encoder.append("WAIT", wait) }
    }
}

/// The commands `LIMIT.*`.
package enum LimitCalls {
    /// `LIMIT.TAKE service [COST n] [SUBJECT s] [WAIT ms]`.
    package struct Take: SidecarCall {
        package var request: UpstreamCallRequest

        package init(_ request: UpstreamCallRequest) {
            self.request = request
        }

        package var wait: Duration { request.wait }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.TAKE")
            request.encode(into: &encoder)
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> SidecarLimit {
            guard let limit = SidecarLimit(service: request.service, reply) else { throw reply.unexpected(for: "LIMIT.TAKE") }
            return limit
        }
    }

    /// `LIMIT.PEEK service [SUBJECT s]`: the same answer, taking nothing.
    struct Peek: SidecarCall {
        var service: String
        var subject: String?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.PEEK")
            encoder.append(service)
            if let subject { encoder.append("SUBJECT", subject) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> SidecarLimit {
            guard let limit = SidecarLimit(service: service, reply) else { throw reply.unexpected(for: "LIMIT.PEEK") }
            return limit
        }
    }
}
