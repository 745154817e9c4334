import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

/// `interlock fleet`: the sidecars that share a Redis.
struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "List the live sidecars.",
        discussion: """
            Those with the same CONFIGURATION run with the same services and domains; DIFFERS names the services, and the \
            domains as domain:NAME, that a sidecar defines differently from the one that was asked. Sidecars of older versions say less of themselves. \
            `CLIENT LIST` at Redis calls a sidecar's connections interlock/ID.

            EXAMPLES
              interlock fleet
              interlock fleet --json
            """
    )

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let members = try await sidecar.withClient("fleet") { try await $0.fleet() }
        try Terminal.show(FleetListing(sidecars: members.map { FleetListing.Sidecar($0) }), asJSON: output.json)
    }
}

/// The live sidecars.
struct FleetListing: Answer {
    struct Sidecar: Encodable {
        var id: String
        /// Empty, or `nil`: an older sidecar, which does not say. So below.
        var host: String
        var process: Int64?
        var version: String
        var startedMilliseconds: Int64?
        var configuration: String
        var differing: [String]

        private enum CodingKeys: String, CodingKey {
            case id, host, version, configuration
            case differing = "differs"
            case process = "pid"
            case startedMilliseconds = "started_ms"
        }

        init(_ member: FleetMember) {
            id = member.id
            host = member.host ?? ""
            process = member.processID
            version = member.version ?? ""
            startedMilliseconds = member.startedMilliseconds
            configuration = member.configuration ?? ""
            differing = member.differing
        }
    }

    var sidecars: [Sidecar]

    var table: String {
        var table = Table(["ID", "HOST", "PID", "VERSION", "STARTED", "CONFIGURATION", "DIFFERS"])
        for sidecar in sidecars {
            table.add([
                sidecar.id, sidecar.host, sidecar.process.map { "\($0)" } ?? "", sidecar.version,
                ReadableText.moment(epochMilliseconds: sidecar.startedMilliseconds ?? 0), sidecar.configuration,
                sidecar.differing.joined(separator: ", "),
            ])
        }
        return table.text
    }
}
