internal import Interlock
internal import NIOHTTP1

/// The fleet: its sidecars, and the Redis that they use.
struct FleetRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [HTTPRoute(.GET, "/v1/fleet", answer: list), HTTPRoute(.GET, "/v1/redis", answer: redis)]
    }

    private func list(_ call: HTTPCall) async throws -> HTTPAnswer {
        try .json(FleetReply.members(await coordinator.fleet()))
    }

    private func redis(_ call: HTTPCall) async throws -> HTTPAnswer {
        try .json(RedisStatusReply.members(await coordinator.status))
    }
}
