import Hiredis
import InterlockCore

/// `BREAKER.STATE service`.
struct ReadBreaker: SidecarCommand {
    var service: String

    var purpose: String { "breaker show \(service)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("BREAKER.STATE")
        encoder.append(service)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> BreakerReading {
        guard let reading = BreakerReading(reply) else { throw reply.unexpected(for: "BREAKER.STATE") }
        return reading
    }
}

/// `BREAKER.LIST`.
struct ListBreakers: SidecarCommand {
    var purpose: String { "breaker list" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("BREAKER.LIST")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> [BreakerReading] {
        guard let elements = reply.array else { throw reply.unexpected(for: "BREAKER.LIST") }
        let readings = elements.compactMap { BreakerReading($0) }
        guard readings.count == elements.count else { throw reply.unexpected(for: "BREAKER.LIST") }
        return readings
    }
}

/// `BREAKER.FORCE service OPEN|CLOSED|DISABLED|AUTO [FOR ms] [REASON text]`.
struct ForceBreaker: SidecarCommand {
    var service: String
    var state: ForcedState
    /// For how long; `nil`: until `AUTO`.
    var duration: Duration?
    var reason: String?

    var purpose: String { "breaker force \(service)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("BREAKER.FORCE")
        encoder.append(service)
        encoder.append(state.rawValue)
        if let duration {
            encoder.append("FOR")
            encoder.append(duration.wholeMilliseconds)
        }
        if let reason {
            encoder.append("REASON")
            encoder.append(reason)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "BREAKER.FORCE") }
    }
}

extension BreakerReading {
    /// `nil` when the reply is no breaker's map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let service = fields.text("service"), let state = fields.text("state") else {
            return nil
        }
        self.init(
            service: service, state: state, fleetState: fields.text("fleet_state") ?? state, cause: fields.text("cause") ?? "",
            sinceMilliseconds: fields.integer("since_ms") ?? 0, untilMilliseconds: fields.integer("until_ms") ?? 0,
            generation: fields.integer("generation") ?? 0, failureRate: fields.number("failure_rate") ?? 0,
            slowRate: fields.number("slow_rate") ?? 0, calls: fields.integer("calls") ?? 0,
            trips: fields.integer("trips") ?? 0, forced: fields.text("forced"),
            forcedUntilMilliseconds: fields.integer("forced_until_ms") ?? 0, reason: fields.text("reason") ?? "",
            by: fields.text("by") ?? "", ownCause: fields.text("own_cause"))
    }
}
