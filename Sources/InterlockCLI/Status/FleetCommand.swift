import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore
import SidecarListeners

/// `interlock fleet`: lists the sidecars that share a Redis.
struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "List the sidecars that are running.",
        usage: "interlock fleet [<options>]",
        discussion: """
            Sidecars with the same CONFIGURATION have the same services and domains. DIFFERS lists the services, and the \
            domains as domain:NAME, that a sidecar defines differently from the one that answers. Older versions report fewer \
            fields. In the output of Redis's CLIENT LIST, a sidecar's connections are named interlock/ID.

            EXAMPLES
              interlock fleet
              interlock fleet --json
            """
    )

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let members = try await sidecar.withClient("fleet") { try await $0.fleet() }
        try Terminal.show(FleetListing(sidecars: members), asJSON: output.json)
    }
}

/// The output of the live sidecars.
struct FleetListing: CommandOutput {
    var sidecars: [FleetMember]

    private enum CodingKeys: CodingKey {
        case sidecars
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(sidecars.map(Self.json), forKey: .sidecars)
    }

    private static func json(_ member: FleetMember) -> JSONValue {
        JSONValue.object([
            "id": .string(member.id), "host": .string(member.host ?? ""), "pid": JSONValue(member.processID),
            "version": .string(member.version ?? ""), "started_ms": JSONValue(member.startedMilliseconds),
            "configuration": .string(member.configurationDigest ?? ""), "differs": JSONValue(member.differingServices),
        ]).withoutNulls
    }

    var table: String {
        var table = Table(["ID", "HOST", "PID", "VERSION", "STARTED", "CONFIGURATION", "DIFFERS"])
        for sidecar in sidecars {
            table.add([
                sidecar.id, sidecar.host ?? "", sidecar.processID.map { "\($0)" } ?? "", sidecar.version ?? "",
                ReadableText.moment(epochMilliseconds: sidecar.startedMilliseconds ?? 0), sidecar.configurationDigest ?? "",
                sidecar.differingServices.joined(separator: ", "),
            ])
        }
        return table.text
    }
}
