import ArgumentParser
import InterlockClient
import InterlockCommandLine

/// A breaker as a sidecar sees it. Words stay as the sidecar spells them: a newer one may have more.
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

    init(_ breaker: SidecarBreaker) {
        service = breaker.service
        state = breaker.state.rawValue
        fleetState = breaker.fleetState.rawValue
        cause = breaker.cause
        sinceMilliseconds = breaker.sinceMilliseconds
        untilMilliseconds = breaker.untilMilliseconds
        generation = breaker.generation
        failureRate = breaker.failureRate
        slowRate = breaker.slowRate
        calls = breaker.calls
        trips = breaker.trips
        forced = breaker.forced?.rawValue
        forcedUntilMilliseconds = breaker.forcedUntilMilliseconds
        reason = breaker.reason
        by = breaker.by
        ownCause = breaker.ownCause
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

/// What an operator can force.
enum ForcedState: String, CaseIterable, ExpressibleByArgument, Sendable {
    case open, closed, disabled
    /// Not forced.
    case auto

    var forced: SidecarBreaker.Forced? { self == .auto ? nil : SidecarBreaker.Forced(rawValue: rawValue) }
}
