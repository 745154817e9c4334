package import InterlockCore
package import RedisClient

extension CallDecision.Outcome {
    /// Returns the outcome that a reply reports. A negative time means that no retry can succeed.
    fileprivate static func outcome(isLimited: Bool, retryAfterMilliseconds: Int64) -> Self {
        guard isLimited else { return .taken }
        return retryAfterMilliseconds < 0 ? .neverSatisfiable : .refused(retryAfterMilliseconds: retryAfterMilliseconds)
    }
}

extension CallDecision {
    /// Decodes `[limited 0/1, limit, remaining, retry-after-ms (-1 if taken), reset-after-ms]`, followed by the limit's
    /// name if `NAMED` was sent.
    fileprivate init(_ reply: RedisReply, for command: String) throws(RedisError) {
        guard case .array(let parts) = reply, parts.count == 5 || parts.count == 6, let isLimited = parts[0].integer,
            let limit = parts[1].integer, let remaining = parts[2].integer,
            let retryAfterMilliseconds = parts[3].integer, let resetAfterMilliseconds = parts[4].integer
        else { throw reply.unexpected(for: command) }
        self.init(
            .outcome(isLimited: isLimited != 0, retryAfterMilliseconds: retryAfterMilliseconds), limit: limit,
            remaining: remaining, resetAfterMilliseconds: resetAfterMilliseconds,
            limitName: parts.count == 6 ? parts[5].text : nil)
    }
}

extension LimitState {
    /// Decodes an element of the reply to `LIMIT.LIST`. Returns `nil` if the element is malformed.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let name = fields.text("name"), let isLimited = fields.integer("limited"),
            let limit = fields.integer("limit"), let remaining = fields.integer("remaining"),
            let retryAfterMilliseconds = fields.integer("retry_after_ms"),
            let resetAfterMilliseconds = fields.integer("reset_after_ms"), let algorithm = fields.text("algorithm"),
            let windowMilliseconds = fields.integer("window_ms")
        else { return nil }
        self.init(
            algorithm: algorithm, window: .milliseconds(windowMilliseconds),
            isPerSubject: fields.integer("per_subject") == 1, isShadow: fields.integer("shadow") == 1,
            callDecision: CallDecision(
                .outcome(isLimited: isLimited != 0, retryAfterMilliseconds: retryAfterMilliseconds), limit: limit,
                remaining: remaining, resetAfterMilliseconds: resetAfterMilliseconds, limitName: name))
    }
}

/// The arguments that `LIMIT.TAKE` and `PERMIT.ACQUIRE` share.
package struct UpstreamCallRequest: Sendable {
    package var service: String
    package var cost: Int64
    package var subject: String?
    package var wait: Duration

    package init(service: String, cost: Int64 = 1, subject: String? = nil, wait: Duration = .zero) {
        self.service = service
        self.cost = cost
        self.subject = subject
        self.wait = wait
    }

    /// Appends the arguments, without those that have their default value: a sidecar batches takes without options.
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
        /// Whether the reply names the limit that determined the decision.
        package var includesLimitName: Bool

        package init(_ request: UpstreamCallRequest, includesLimitName: Bool = false) {
            self.request = request
            self.includesLimitName = includesLimitName
        }

        package var wait: Duration { request.wait }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.TAKE")
            request.encode(into: &encoder)
            if includesLimitName { encoder.append("NAMED") }
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> LimitDecision {
            LimitDecision(try CallDecision(reply, for: "LIMIT.TAKE"))
        }
    }

    /// `LIMIT.PEEK service [SUBJECT s | DESCRIPTOR text] [NAMED]`: gets the same reply as a take, without taking
    /// anything.
    struct Peek: SidecarCall {
        /// The service's name, or a domain's name if there is a descriptor.
        var service: String
        var subject: String?
        var descriptor: String?
        var includesLimitName: Bool

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.PEEK")
            encoder.append(service)
            if let subject { encoder.append("SUBJECT", subject) }
            if let descriptor { encoder.append("DESCRIPTOR", descriptor) }
            if includesLimitName { encoder.append("NAMED") }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> LimitDecision {
            LimitDecision(try CallDecision(reply, for: "LIMIT.PEEK"))
        }
    }

    /// `LIMIT.LIST service [SUBJECT s]`: lists the limits that apply.
    struct List: SidecarCall {
        var service: String
        var subject: String?

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIMIT.LIST")
            encoder.append(service)
            if let subject { encoder.append("SUBJECT", subject) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [LimitState] {
            try reply.elements(for: "LIMIT.LIST") { LimitState($0) }
        }
    }
}
