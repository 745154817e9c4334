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
    /// The name of the limit that binds; `nil` unless it was asked for.
    public var name: String?

    /// `[limited 0/1, limit, remaining, retry-after-ms (-1 if taken), reset-after-ms]`, and with `NAMED` the limit's name; `nil` when
    /// the reply is not that.
    fileprivate init?(service: String, _ reply: RedisReply) {
        guard case .array(let parts) = reply, parts.count == 5 || parts.count == 6, let isLimited = parts[0].integer,
            let limit = parts[1].integer,
            let remaining = parts[2].integer, let retryAfter = parts[3].integer, let resetAfter = parts[4].integer
        else { return nil }
        self.service = service
        isGranted = isLimited == 0
        self.limit = limit
        self.remaining = remaining
        self.retryAfter = retryAfter < 0 ? nil : .milliseconds(retryAfter)
        self.resetAfter = .milliseconds(resetAfter)
        name = parts.count == 6 ? parts[5].text : nil
    }

    /// One element of the reply to `LIMIT.LIST`.
    fileprivate init?(service: String, _ fields: ReplyFields) {
        guard let name = fields.text("name"), let isLimited = fields.integer("limited"), let limit = fields.integer("limit"),
            let remaining = fields.integer("remaining"), let retryAfter = fields.integer("retry_after_ms"),
            let resetAfter = fields.integer("reset_after_ms")
        else { return nil }
        self.service = service
        isGranted = isLimited == 0
        self.limit = limit
        self.remaining = remaining
        self.retryAfter = retryAfter < 0 ? nil : .milliseconds(retryAfter)
        self.resetAfter = .milliseconds(resetAfter)
        self.name = name
    }
}

/// Where one limit of a service stands.
public struct SidecarLimitStanding: Hashable, Sendable {
    /// What a call of cost 1 would be told if this were the only limit; a shadow refuses nobody.
    public var limit: SidecarLimit
    /// `fixed`, `sliding` or `gcra`. Newer sidecars may have more.
    public var algorithm: String
    /// The window's length.
    public var window: Duration
    /// Each subject has a count of its own.
    public var isPerSubject: Bool
    /// It counts and refuses nobody.
    public var isShadow: Bool

    fileprivate init?(service: String, _ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let limit = SidecarLimit(service: service, fields),
            let algorithm = fields.text("algorithm"), let window = fields.integer("window_ms")
        else { return nil }
        self.limit = limit
        self.algorithm = algorithm
        self.window = .milliseconds(window)
        isPerSubject = fields.integer("per_subject") == 1
        isShadow = fields.integer("shadow") == 1
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
    /// `LIMIT.TAKE service [COST n] [SUBJECT s] [WAIT ms] [NAMED]`.
    package struct Take: SidecarCall {
        package var request: UpstreamCallRequest
        /// The answer names the limit that binds.
        package var isNamed: Bool

        package init(_ request: UpstreamCallRequest, isNamed: Bool = false) {
            self.request = request
            self.isNamed = isNamed
        }

        package var wait: Duration { request.wait }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.TAKE")
            request.encode(into: &encoder)
            if isNamed { encoder.append("NAMED") }
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> SidecarLimit {
            guard let limit = SidecarLimit(service: request.service, reply) else { throw reply.unexpected(for: "LIMIT.TAKE") }
            return limit
        }
    }

    /// `LIMIT.PEEK service [SUBJECT s | DESCRIPTOR text] [NAMED]`: the same answer, taking nothing.
    struct Peek: SidecarCall {
        /// Or a domain, with a descriptor.
        var service: String
        var subject: String?
        var descriptor: String?
        var isNamed: Bool

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.PEEK")
            encoder.append(service)
            if let subject { encoder.append("SUBJECT", subject) }
            if let descriptor { encoder.append("DESCRIPTOR", descriptor) }
            if isNamed { encoder.append("NAMED") }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> SidecarLimit {
            guard let limit = SidecarLimit(service: service, reply) else { throw reply.unexpected(for: "LIMIT.PEEK") }
            return limit
        }
    }
    /// `LIMIT.LIST service [SUBJECT s]`: each limit that applies.
    struct List: SidecarCall {
        var service: String
        var subject: String?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.LIST")
            encoder.append(service)
            if let subject { encoder.append("SUBJECT", subject) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [SidecarLimitStanding] {
            guard let elements = reply.array else { throw reply.unexpected(for: "LIMIT.LIST") }
            let standings = elements.compactMap { SidecarLimitStanding(service: service, $0) }
            guard standings.count == elements.count else { throw reply.unexpected(for: "LIMIT.LIST") }
            return standings
        }
    }
}
