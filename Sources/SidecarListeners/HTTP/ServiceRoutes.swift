internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarSettings

/// Services and their breakers: shows their states, and overrides them.
struct ServiceRoutes {
    let coordinator: Coordinator
    let probe: ProbeReadings.Lookup

    /// The states that an override can set.
    private enum Override: String, CaseIterable {
        case open, closed, disabled, auto
    }

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/v1/services", inTask: list),
            HTTPRoute(.GET, "/v1/services/{service}", inTask: show),
            HTTPRoute(.PUT, "/v1/services/{service}/override", for: .role(.admin), inTask: override),
        ]
    }

    private func list(_ call: HTTPCall) async throws -> HTTPResponse {
        try .json(["services": await coordinator.allBreakers().map(reply)])
    }

    private func show(_ call: HTTPCall) async throws -> HTTPResponse {
        let service = try call.name("service").text
        return try .json(reply(try await coordinator.breaker(service: service)))
    }

    private func reply(_ status: BreakerStatus) -> [String: JSONValue] {
        ServiceReply.fields(status, probe: probe(status.service))
    }

    private func override(_ call: HTTPCall) async throws -> HTTPResponse {
        let service = try call.name("service").text
        let fields = try call.fields("state", "for_ms", "reason")
        let newState: Override = try fields.requiredChoice("state")
        let status = try await coordinator.forceBreaker(
            service: service, to: BreakerSnapshot.Forced(rawValue: newState.rawValue),
            forMilliseconds: try fields.integer("for_ms", in: 1...RequestLimits.maximumMilliseconds),
            reason: try fields.text("reason") ?? "", by: call.caller.name)
        return try .json(reply(status))
    }
}
