internal import Interlock
package import InterlockCore

/// A service's breaker as JSON, with the names that `BREAKER.STATE` uses.
package enum ServiceReply {
    package static func fields(_ status: BreakerStatus, probe: ProbeReading?) -> [String: JSONValue] {
        let own: [String: JSONValue] = [
            "service": .string(status.service),
            "state": .string(status.state.rawValue),
            "fleet_state": .string(status.fleet.state.rawValue),
            "own_cause": status.ownCause.map(JSONValue.string) ?? .null,
            "probe": probe.map(fields) ?? .null,
        ]
        return own.merging(fields(status.fleet)) { own, _ in own }
    }

    /// Returns the JSON members that describe a breaker's state in the fleet.
    package static func fields(_ fleet: BreakerSnapshot) -> [String: JSONValue] {
        [
            "state": .string(fleet.state.rawValue),
            "cause": .string(fleet.cause),
            "since_ms": .integer(fleet.sinceMilliseconds),
            "until_ms": .integer(fleet.untilMilliseconds),
            "generation": .integer(fleet.generation),
            "failure_rate": .number(fleet.failureRate),
            "slow_rate": .number(fleet.slowRate),
            "calls": .integer(fleet.calls),
            "trips": .integer(fleet.trips),
            "forced": fleet.forced.map { .string($0.rawValue) } ?? .null,
            "forced_until_ms": .integer(fleet.forcedUntilMilliseconds),
            "reason": .string(fleet.reason),
            "by": .string(fleet.changedBy),
        ]
    }

    private static func fields(_ reading: ProbeReading) -> JSONValue {
        let lastProbe = reading.lastProbe
        return .object([
            "prober": .string(reading.prober.rawValue),
            "finding": lastProbe.map { .string($0.finding.rawName) } ?? .null,
            "reason": lastProbe?.finding.reason.map { .string($0.description) } ?? .null,
            "at_ms": lastProbe.map { .integer($0.atMilliseconds) } ?? .null,
            "duration_ms": lastProbe.map { .integer($0.duration.wholeMilliseconds) } ?? .null,
            "failures": .integer(Int64(reading.failureCount)),
            "successes": .integer(Int64(reading.successCount)),
        ])
    }
}

extension CallDecision {
    /// The decision of the limit that binds, as JSON.
    var fields: KeyValuePairs<String, JSONValue> {
        [
            "limit": .integer(limit),
            "limited": .bool(!isAllowed),
            "name": limitName.map(JSONValue.string) ?? .null,
            "remaining": .integer(remaining),
            "reset_after_ms": .integer(resetAfterMilliseconds),
            "retry_after_ms": .integer(reportedRetryAfterMilliseconds),
        ]
    }

    /// The same members as `fields`, in a dictionary.
    var object: [String: JSONValue] { Dictionary(uniqueKeysWithValues: fields.map { ($0.key, $0.value) }) }
}

extension LimitState {
    /// The state of a limit, as JSON.
    package var fields: [String: JSONValue] {
        let own: [String: JSONValue] = [
            "algorithm": .string(algorithm),
            "window_ms": .integer(window.wholeMilliseconds),
            "per_subject": .bool(isPerSubject),
            "shadow": .bool(isShadow),
        ]
        return own.merging(callDecision.object) { own, _ in own }
    }
}
