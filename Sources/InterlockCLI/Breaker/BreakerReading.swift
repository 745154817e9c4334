import ArgumentParser
import Hiredis
import InterlockCore

/// A breaker as a sidecar sees it. Words are passed on as the sidecar spells them: a newer one may have more of them.
struct BreakerReading: Answer, Sendable {
    var service: String
    /// As this sidecar acts.
    var state: String
    /// As the fleet shares it.
    var fleetState: String
    /// Why; empty: it never changed.
    var cause: String
    /// In the Unix epoch, by Redis' clock; 0: never changed.
    var sinceMilliseconds: Int64
    /// When an open breaker half-opens; 0: not by itself.
    var untilMilliseconds: Int64
    var generation: Int64
    var failureRate: Double
    var slowRate: Double
    var calls: Int64
    var trips: Int64
    /// What an operator forced; `nil`: nothing.
    var forced: String?
    /// When the forced state ends; 0: not by itself.
    var forcedUntilMilliseconds: Int64
    /// In words; may be empty.
    var reason: String
    /// The sidecar that made the last change, and the API key's name when a person did.
    var by: String
    /// Why the sidecar is open for itself alone; `nil`: it is not.
    var ownCause: String?

    private enum CodingKeys: String, CodingKey {
        case service, state, cause, generation, calls, trips, forced, reason, by
        case forcedUntilMilliseconds = "forced_until_ms"
        case ownCause = "own_cause"
        case fleetState = "fleet_state"
        case sinceMilliseconds = "since_ms"
        case untilMilliseconds = "until_ms"
        case failureRate = "failure_rate"
        case slowRate = "slow_rate"
    }

    var table: String {
        Table([
            "service": service,
            "state": state,
            "in the fleet": fleetState,
            "forced": forcedWords,
            "cause": cause,
            "reason": reason,
            "by": by,
            "alone": ownCause ?? "no",
            "since": ReadableText.moment(epochMilliseconds: sinceMilliseconds),
            "until": ReadableText.moment(epochMilliseconds: untilMilliseconds),
            "calls": "\(calls)",
            "failed": ReadableText.percentage(failureRate),
            "slow": ReadableText.percentage(slowRate),
            "trips": "\(trips)",
            "generation": "\(generation)",
        ]).text
    }

    private var forcedWords: String {
        guard let forced else { return "no" }
        guard forcedUntilMilliseconds > 0 else { return forced }
        return "\(forced) until \(ReadableText.moment(epochMilliseconds: forcedUntilMilliseconds))"
    }
}

/// The breakers of all services.
struct BreakerListing: Answer {
    var services: [BreakerReading]

    var table: String {
        var table = Table(["SERVICE", "STATE", "FLEET", "FORCED", "CAUSE", "CALLS", "FAILED", "SLOW", "TRIPS", "SINCE"])
        for breaker in services {
            table.add([
                breaker.service, breaker.state, breaker.fleetState, breaker.forced ?? "", breaker.cause, "\(breaker.calls)",
                ReadableText.percentage(breaker.failureRate), ReadableText.percentage(breaker.slowRate), "\(breaker.trips)",
                ReadableText.moment(epochMilliseconds: breaker.sinceMilliseconds),
            ])
        }
        return table.text
    }
}

/// What an operator can have a breaker do.
enum ForcedState: String, CaseIterable, ExpressibleByArgument, Sendable {
    case open, closed, disabled
    /// What it would do by itself.
    case auto
}

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
