internal import InterlockCore
internal import RedisClient

extension BreakerStatus {
    /// Decodes a breaker's map. Returns `nil` if the reply is not such a map, or if only a newer sidecar knows the
    /// state.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let service = fields.text("service"),
            let state = fields.text("state").flatMap(BreakerSnapshot.State.init)
        else { return nil }
        self.init(
            service: service, state: state,
            fleet: BreakerSnapshot(
                state: fields.text("fleet_state").flatMap(BreakerSnapshot.State.init) ?? state,
                text: fields.text, number: fields.integer, rate: fields.number))
        ownCause = fields.text("own_cause")
        probe = fields.reply("probe").flatMap { ProbeStatus($0) }
    }
}

extension ProbeStatus {
    /// Decodes a probe's map. Returns `nil` if the reply is not such a map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let prober = fields.text("prober") else { return nil }
        self.init(
            prober: prober, finding: fields.text("finding"), reason: fields.text("reason"),
            duration: fields.integer("duration_ms").map { .milliseconds($0) }, failures: fields.integer("failures") ?? 0,
            successes: fields.integer("successes") ?? 0, atMilliseconds: fields.integer("at_ms"))
    }
}

/// The commands `BREAKER.*`.
enum BreakerCalls {
    /// `BREAKER.STATE service`.
    struct Inspect: SidecarCall {
        var service: String

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("BREAKER.STATE")
            encoder.append(service)
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> BreakerStatus {
            guard let breaker = BreakerStatus(reply) else { throw reply.unexpected(for: "BREAKER.STATE") }
            return breaker
        }
    }

    /// `BREAKER.LIST`.
    struct List: SidecarCall {
        func encode(into encoder: inout CommandEncoder) {
            encoder.append("BREAKER.LIST")
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [BreakerStatus] {
            try reply.elements(for: "BREAKER.LIST") { BreakerStatus($0) }
        }
    }

    /// `BREAKER.FORCE service OPEN|CLOSED|DISABLED|AUTO [FOR ms] [REASON text]`.
    struct Force: SidecarCall {
        var service: String
        /// The forced state; `nil` for `AUTO`, which returns the breaker to automatic operation.
        var state: BreakerSnapshot.Forced?
        var duration: Duration?
        var reason: String

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("BREAKER.FORCE")
            encoder.append(service)
            encoder.append(state?.rawValue ?? "auto")
            if let duration { encoder.append("FOR", duration) }
            if !reason.isEmpty { encoder.append("REASON", reason) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) {
            guard reply.text == "OK" else { throw reply.unexpected(for: "BREAKER.FORCE") }
        }
    }
}
