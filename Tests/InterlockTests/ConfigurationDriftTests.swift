import Hiredis
import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import Testing

@Suite("Sidecars with different configurations of a service")
struct ConfigurationDriftTests {
    private static let before = ServiceDefinition(name: "catalog")
    private static var after: ServiceDefinition {
        var changed = before
        changed.breaker.minimumCalls = 7
        return changed
    }

    private static func differing(_ sidecar: Coordinator, is expected: [String]) async throws {
        try await eventually(within: .seconds(20), "the differing services are \(expected)") {
            await sidecar.status.servicesDiffering == expected
        }
    }

    @Test("a sidecar whose definition is not the fleet's last one says so, until it has reloaded")
    func drift() async throws {
        try await Fleet.run(of: 2, services: [Self.before]) { fleet in
            try await eventually(within: .seconds(10), "the fleet has been told") {
                try await fleet.breaker("configuration") == Self.before.digest
            }
            // What it asked for when it connected is answered, its own declaration too: it says nothing after the other's.
            _ = try await fleet.sidecars[1].inspectLock(try ResourceName("orders"))
            try await fleet.sidecars[0].reload(services: [Self.after])
            try await Self.differing(fleet.sidecars[1], is: ["catalog"])
            #expect(await fleet.sidecars[0].status.servicesDiffering.isEmpty)
            try await fleet.sidecars[1].reload(services: [Self.after])
            try await Self.differing(fleet.sidecars[1], is: [])
        }
    }

    @Test("a wiped Redis is told again, and nobody differs")
    func wiped() async throws {
        try await Fleet.run(of: 2, services: [Self.before]) { fleet in
            try await fleet.cli("FLUSHALL")
            try await eventually(within: .seconds(20), "the fleet has been told again") {
                try await fleet.breaker("configuration") == Self.before.digest
            }
            for sidecar in fleet.sidecars { try await Self.differing(sidecar, is: []) }
        }
    }
}
