internal import HTTPTypes
internal import Interlock

/// The fleet: who is there.
struct FleetRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] { [HTTPRoute(.get, "/v1/fleet", answer: list)] }

    private func list(_ call: HTTPCall) async throws -> HTTPAnswer {
        try .json(FleetReply(sidecars: await coordinator.listFleet().map(FleetReply.Sidecar.init)))
    }
}

/// The live sidecars, under the names that `FLEET.LIST` uses.
struct FleetReply: Encodable {
    struct Sidecar: Encodable {
        private let members: [String: JSONValue]
        private let differs: [String]

        private enum CodingKeys: String, CodingKey { case differs }

        init(_ member: FleetMember) {
            members = [
                "id": .text(member.id),
                "host": member.host.map { .text($0) } ?? .null,
                "pid": member.processID.map { .integer($0) } ?? .null,
                "version": member.version.map { .text($0) } ?? .null,
                "started_ms": member.startedMilliseconds.map { .integer($0) } ?? .null,
                "configuration": member.configuration.map { .text($0) } ?? .null,
            ]
            differs = member.differing
        }

        func encode(to encoder: any Encoder) throws {
            try members.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(differs, forKey: .differs)
        }
    }

    var sidecars: [Sidecar]
}
