import ArgumentParser

extension LimitCommand {
    /// `interlock limit take`: counts a call.
    struct Take: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take leave for a call.",
            discussion: """
                All limits of the service are taken together or not at all. Prints the window that binds; exits with 1 when it \
                is used up, having taken nothing.

                EXAMPLES
                  interlock limit take catalog
                  interlock limit take catalog --cost 5 --subject tenant-7 --wait 2s
                """
        )

        @Argument(help: "The service's name.")
        var service: String

        @Option(help: ArgumentHelp("How many calls it counts as.", valueName: "count"))
        var cost: Int64 = 1

        @Option(help: ArgumentHelp("The tenant, user or address that it counts for.", valueName: "name"))
        var subject: String?

        @Option(help: ArgumentHelp("How long to wait for a turn: 500ms, 2s.", valueName: "duration"))
        var wait = DurationArgument.none

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let command = TakeLimit(service: service, cost: cost, subject: subject, wait: wait.duration)
            let reading = try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            try Terminal.show(reading, asJSON: output.json)
            guard reading.isLimited else { return }
            let pause = reading.retryAfter.isEmpty ? "" : "try again in \(reading.retryAfter), or "
            throw Failure("the limit of \(service) is used up: \(pause)wait for a turn with --wait", exitCode: .refused)
        }
    }
}
