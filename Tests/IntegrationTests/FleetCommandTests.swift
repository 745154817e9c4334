import FoundationEssentials
import Glibc
import InterlockProcesses
import Subprocess
import Testing

@testable import InterlockCLI

/// The commands that show a fleet and the configuration of its sidecars.
@Suite("Command line: fleet and configuration", .serialized, .timeLimit(.minutes(2)))
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

    private struct Shown: Decodable {
        var configuration: String
        var services: [String: String]
        var yaml: String
    }

    private struct Schema: Decodable {
        struct Section: Decodable {
            var description: String
        }

        struct Properties: Decodable {
            var redis: Section
            var services: Section
        }

        var properties: Properties
    }

    @Test("`interlock config show` prints the effective settings, with the digest that the fleet shows")
    func configShowPrintsEffectiveSettings() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/interlock.yaml"
        try Data("redis: { embedded: true }\nservices: { catalog: { limits: [ { limit: 3, per: 1h } ] } }".utf8)
            .write(to: URL(filePath: file))
        let outcome = try await InterlockProcess.outcome(
            ["config", "show", file, "--json"],
            environment: InterlockProcess.environment.updating(["INTERLOCK_RESP": "127.0.0.1:7999"]))
        #expect(outcome.status == .exited(0))
        let effective = try outcome.decoded(Shown.self)
        #expect(effective.yaml.contains(#"resp: "127.0.0.1:7999""#))
        #expect(effective.services.keys.sorted() == ["catalog"])
        let listing = try await InterlockProcess.outcome(["config", "show", file]).output
        #expect(listing.hasPrefix("# configuration \(effective.configuration)\n# service catalog "))
        #expect(listing.contains("per: 1h"))
        try await SidecarProcess.withSidecar(configuration: "services: { catalog: { limits: [ { limit: 3, per: 1h } ] } }") {
            let listed = try await $0.interlock("fleet").output
            #expect(listed.contains(effective.configuration))
        }
        let missing = try await InterlockProcess.outcome(["config", "show", "\(folder.path)/none.yaml"])
        #expect(missing.status == .exited(64))
        #expect(missing.errors.contains("none.yaml"))
    }

    @Test("`interlock config schema` prints the JSON Schema of the configuration")
    func configSchemaPrintsJSONSchema() async throws {
        let outcome = try await InterlockProcess.outcome(["config", "schema"])
        #expect(outcome.status == .exited(0))
        let sections = try outcome.decoded(Schema.self).properties
        #expect(!sections.redis.description.isEmpty && !sections.services.description.isEmpty)
        #expect(outcome.output.hasSuffix("\n}\n"))
    }

    @Test("`interlock fleet` lists the live sidecars")
    func interlockFleetListsLiveSidecars() async throws {
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
            let status = try await sidecar.interlock("status").output
            #expect(status.contains("1: \(only.host)\n"), "\(status)")
        }
    }

    @Test("A list of sidecars is truncated after eight")
    func truncatedList() {
        let hosts = (1...200).map { "web-\($0)" }
        #expect(ShortList.text(Array(hosts.prefix(2))) == "web-1, web-2")
        #expect(ShortList.text(Array(hosts.prefix(8))).hasSuffix("web-8"))
        #expect(ShortList.text(hosts).hasSuffix("web-8 and 192 more (see `interlock fleet`)"))
    }
}
