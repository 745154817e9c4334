internal import Interlock
internal import NIOHTTP1

/// The fleet: shows its sidecars, and the state of their Redis database.
struct FleetRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [HTTPRoute(.GET, "/v1/fleet", inTask: list), HTTPRoute(.GET, "/v1/redis", inTask: redis)]
    }

    private func list(_ call: HTTPCall) async throws -> HTTPResponse {
        try .json(FleetReply.fields(await coordinator.fleet()))
    }

    private func redis(_ call: HTTPCall) async throws -> HTTPResponse {
        try .json(RedisStatusReply.fields(await coordinator.status))
    }
}
