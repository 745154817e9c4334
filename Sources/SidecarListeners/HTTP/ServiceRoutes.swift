internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarSettings

/// Services and their breakers: shows and overrides them.
struct ServiceRoutes {
    let coordinator: Coordinator
    let probe: ProbeReadings.Lookup

    /// The states that an override can set.
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
        try .json(["services": await coordinator.allBreakers().map(reply)])
    }

    private func show(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        return try .json(reply(try await coordinator.breaker(service: service)))
    }

    private func reply(_ status: BreakerStatus) -> [String: JSONValue] {
        ServiceReply.members(status, probe: probe(status.service))
    }

    private func override(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        let fields = try call.fields("state", "for_ms", "reason")
        let body: Override = try fields.requiredWord("state")
        let status = try await coordinator.forceBreaker(
            service: service, to: BreakerSnapshot.Forced(rawValue: body.rawValue),
            forMilliseconds: try fields.integer("for_ms", in: 1...RequestLimits.maximumMilliseconds),
            reason: try fields.text("reason") ?? "", by: call.caller.name)
        return try .json(reply(status))
    }
}
