import ArgumentParser

extension LimitCommand {
    /// `interlock limit show`: where a limit stands.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show where the limits of a service stand, taking nothing.",
            discussion: """
                Prints the window that binds: the one with the least left.

                EXAMPLES
                  interlock limit show catalog
                  interlock limit show catalog --subject tenant-7 --json
                """
        )

        @Argument(help: "The service's name.")
        var service: String

        @Option(help: ArgumentHelp("The tenant, user or address to look at.", valueName: "name"))
        var subject: String?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let command = PeekLimit(service: service, subject: subject)
            let reading = try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            try Terminal.show(reading, asJSON: output.json)
        }
    }
}
