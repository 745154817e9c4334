import FoundationEssentials
import Glibc
import InterlockProcesses
import Subprocess
import Testing

/// What the command line tells of a fleet and of how its sidecars are configured.
@Suite("The command line: fleet and configuration", .serialized, .timeLimit(.minutes(2)))
struct FleetCommandTests {
    private struct Listing: Decodable {
        struct Sidecar: Decodable {
            var id: String
            var host: String
            var pid: Int64?
            var version: String
            var startedMs: Int64?
            var configuration: String
        }

        var sidecars: [Sidecar]
    }

    @Test("interlock fleet lists the live sidecars")
    func fleet() async throws {
        try await SidecarProcess.withSidecar(configuration: "services: { catalog: {} }") { sidecar in
            let outcome = try await sidecar.interlock("fleet", "--json")
            #expect(outcome.status == .exited(0))
            let only = try #require(try outcome.decoded(Listing.self).sidecars.first)
            #expect(only.id.utf8.count == 12)
            #expect(only.pid == sidecar.process.pid.map { Int64($0) })
            #expect(!only.host.isEmpty && !only.version.isEmpty && only.startedMs ?? 0 > 0)
            #expect(only.configuration.utf8.count == 16)
            let table = try await sidecar.interlock("fleet").output
            #expect(table.hasPrefix("ID "))
            #expect(table.contains(only.id) && table.contains(only.configuration))
        }
    }
}
