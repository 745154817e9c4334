internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// Services and their breakers: look, and override.
struct ServiceRoutes {
    let coordinator: Coordinator
    let probe: ProbeReadings.Lookup

    /// What an override may say.
    private enum Override: String, CaseIterable {
        case open, closed, disabled, auto
    }

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/v1/services", answer: list),
            HTTPRoute(.GET, "/v1/services/{service}", answer: show),
            HTTPRoute(.PUT, "/v1/services/{service}/override", for: .role(.admin), answer: override),
        ]
    }

    private func list(_ call: HTTPCall) async throws -> HTTPAnswer {
        try .json(ServiceListReply(services: await coordinator.allBreakers().map(reply)))
    }

    private func show(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        return try .json(reply(try await coordinator.breaker(service: service)))
    }

    private func reply(_ status: BreakerStatus) -> ServiceReply {
        ServiceReply(status, probe: probe(status.service))
    }

    private func override(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        let fields = try call.fields("state", "for_ms", "reason")
        let body: Override = try fields.requiredWord("state")
        let status = try await coordinator.forceBreaker(
            service: service, to: BreakerSnapshot.Forced(rawValue: body.rawValue),
            forMilliseconds: try fields.integer("for_ms", in: 1...DoorBounds.longestMilliseconds),
            reason: try fields.text("reason") ?? "", by: call.caller.name)
        return try .json(reply(status))
    }
}

/// All services' breakers.
struct ServiceListReply: Encodable {
    var services: [ServiceReply]
}

/// A service's breaker, under the names that `BREAKER.STATE` uses.
struct ServiceReply: Encodable {
    private let members: [String: JSONValue]

    init(_ status: BreakerStatus, probe: ProbeReading?) {
        let fleet = status.fleet
        members = [
            "service": .text(status.service),
            "state": .text(status.state.rawValue),
            "fleet_state": .text(fleet.state.rawValue),
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
            "own_cause": status.ownCause.map { .text($0.rawValue) } ?? .null,
            "probe": probe.map(Self.members) ?? .null,
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

    func encode(to encoder: any Encoder) throws {
        try members.encode(to: encoder)
    }
}
