import ArgumentParser

extension BreakerCommand {
    /// `interlock breaker show`: one breaker.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a service's breaker: its state, why, since when and until when.",
            discussion: """
                EXAMPLES
                  interlock breaker show catalog
                  interlock breaker show catalog --json
                """
        )

        @Argument(help: "The service's name.")
        var service: String

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let command = ReadBreaker(service: service)
            let reading = try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            try Terminal.show(reading, asJSON: output.json)
        }
    }
}
