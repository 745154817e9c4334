internal import Interlock
package import InterlockCore

/// A service's breaker, under the names that `BREAKER.STATE` uses.
package enum ServiceReply {
    package static func members(_ status: BreakerStatus, probe: ProbeReading?) -> [String: JSONValue] {
        let own: [String: JSONValue] = [
            "service": .text(status.service),
            "state": .text(status.state.rawValue),
            "fleet_state": .text(status.fleet.state.rawValue),
            "own_cause": status.ownCause.map(JSONValue.text) ?? .null,
            "probe": probe.map(members) ?? .null,
        ]
        return own.merging(members(status.fleet)) { own, _ in own }
    }

    /// Returns the JSON members that describe a breaker's state in the fleet.
    package static func members(_ fleet: BreakerSnapshot) -> [String: JSONValue] {
        [
            "state": .text(fleet.state.rawValue),
            "cause": .text(fleet.cause),
            "since_ms": .integer(fleet.sinceMilliseconds),
            "until_ms": .integer(fleet.untilMilliseconds),
            "generation": .integer(fleet.generation),
            "failure_rate": .number(fleet.failureRate),
            "slow_rate": .number(fleet.slowRate),
            "calls": .integer(fleet.calls),
            "trips": .integer(fleet.trips),
            "forced": fleet.forced.map { .text($0.rawValue) } ?? .null,
            "forced_until_ms": .integer(fleet.forcedUntilMilliseconds),
            "reason": .text(fleet.reason),
            "by": .text(fleet.by),
        ]
    }

    private static func members(_ reading: ProbeReading) -> JSONValue {
        let last = reading.last
        return .object([
            "prober": .text(reading.prober.rawValue),
            "finding": last.map { .text($0.finding.word) } ?? .null,
            "reason": last?.finding.reason.map { .text($0.description) } ?? .null,
            "at_ms": last.map { .integer($0.atMilliseconds) } ?? .null,
            "duration_ms": last.map { .integer($0.duration.wholeMilliseconds) } ?? .null,
            "failures": .integer(Int64(reading.failures)),
            "successes": .integer(Int64(reading.successes)),
        ])
    }
}

extension LimitAnswer {
    /// The decision of the limit that binds, as JSON.
    var members: KeyValuePairs<String, JSONValue> {
        [
            "limit": .integer(limit),
            "limited": .flag(!isTaken),
            "name": limitName.map(JSONValue.text) ?? .null,
            "remaining": .integer(remaining),
            "reset_after_ms": .integer(resetAfter),
            "retry_after_ms": .integer(reportedRetryAfter),
        ]
    }

    /// The same members as a dictionary.
    var object: [String: JSONValue] { Dictionary(uniqueKeysWithValues: members.map { ($0.key, $0.value) }) }
}

extension LimitState {
    /// The state of a limit, as JSON.
    package var members: [String: JSONValue] {
        let own: [String: JSONValue] = [
            "algorithm": .text(algorithm),
            "window_ms": .integer(window.wholeMilliseconds),
            "per_subject": .flag(isPerSubject),
            "shadow": .flag(isShadow),
        ]
        return own.merging(answer.object) { own, _ in own }
    }
}
