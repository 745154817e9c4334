import ArgumentParser
import InterlockCommandLine
import InterlockCore

/// A breaker as a sidecar sees it.
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
    /// `nil`: the service is not probed.
    var probe: Probe?

    /// What the sidecar knows of the service's probes.
    struct Probe: Encodable, Sendable {
        /// `elected`, `another`, `all`, `alone` or `undecided`.
        var prober: String
        /// `good`, `bad` or `unjudged`; `nil`: this sidecar has made no probe. So below.
        var finding: String?
        var reason: String?
        var atMilliseconds: Int64?
        var durationMilliseconds: Int64?
        /// In a row, up to the last.
        var failures: Int64
        var successes: Int64

        private enum CodingKeys: String, CodingKey {
            case prober, finding, reason, failures, successes
            case atMilliseconds = "at_ms"
            case durationMilliseconds = "duration_ms"
        }

        init(_ probe: ProbeStatus) {
            prober = probe.prober
            finding = probe.finding
            reason = probe.reason
            atMilliseconds = probe.atMilliseconds
            durationMilliseconds = probe.duration?.wholeMilliseconds
            failures = probe.failures
            successes = probe.successes
        }

        /// In one line: `bad in 12ms, 3 in a row: status 503, expected 200..399`.
        var summary: String {
            let who =
                switch prober {
                case "another": "another sidecar probes"
                case "undecided": "who probes is being decided"
                default: "this sidecar probes"
                }
            guard let finding, prober != "another" else { return who }
            // What could not be judged ends no row, and belongs to none.
            let row = finding == "bad" ? failures : finding == "good" ? successes : 0
            let count = row > 1 ? ", \(row) in a row" : ""
            let took = durationMilliseconds.map { " in \(ReadableText.span(milliseconds: $0))" } ?? ""
            return "\(finding)\(took)\(count)\(reason.map { ": \($0)" } ?? "")"
        }
    }

    private enum CodingKeys: String, CodingKey {
        case service, state, cause, generation, calls, trips, forced, reason, by, probe
        case forcedUntilMilliseconds = "forced_until_ms"
        case ownCause = "own_cause"
        case fleetState = "fleet_state"
        case sinceMilliseconds = "since_ms"
        case untilMilliseconds = "until_ms"
        case failureRate = "failure_rate"
        case slowRate = "slow_rate"
    }

    init(_ status: BreakerStatus) {
        let breaker = status.fleet
        service = status.service
        state = status.state.rawValue
        fleetState = breaker.state.rawValue
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
        ownCause = status.ownCause
        probe = status.probe.map { Probe($0) }
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
            "probe": probe?.summary ?? "none",
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

    var forced: BreakerSnapshot.Forced? { self == .auto ? nil : BreakerSnapshot.Forced(rawValue: rawValue) }
}

extension BreakerReading {
    /// Why a breaker is as it is, in the order in which people ask.
    /// - Parameters:
    ///   - ownCause: why one sidecar is open for itself alone.
    ///   - until: when that is over by itself, in the Unix epoch; 0: it is not.
    static func reasons(
        forced: String?, cause: String, ownCause: String? = nil, reason: String, until: Int64, by: String
    ) -> [String] {
        var reasons: [String] = []
        if let forced { reasons.append("forced \(forced)") } else if !cause.isEmpty { reasons.append(cause) }
        if let ownCause { reasons.append("this sidecar alone: \(ownCause)") }
        if !reason.isEmpty { reasons.append(reason) }
        if until > 0 { reasons.append("until \(ReadableText.moment(epochMilliseconds: until))") }
        if !by.isEmpty { reasons.append("by \(by)") }
        return reasons
    }
}
