import ArgumentParser

extension BreakerCommand {
    /// `interlock breaker list`: the breakers of all services.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the breakers of all services.",
            discussion: """
                STATE is how this sidecar acts, FLEET what the fleet shares; they differ for a moment after a change.

                EXAMPLES
                  interlock breaker list
                  interlock breaker list --json | jq -r '.services[] | select(.state == "open") | .service'
                """
        )

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let services = try await SidecarConnection.open(sidecar) { try await $0.send(ListBreakers()) }
            try Terminal.show(BreakerListing(services: services), asJSON: output.json)
        }
    }
}
