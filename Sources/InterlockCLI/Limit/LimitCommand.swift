import ArgumentParser
import InterlockClient

/// `interlock limit`: rate limits.
struct LimitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "limit",
        abstract: "Take from the rate limits of a service, and look at them.",
        discussion: """
            The services and their limits are those of the sidecar's configuration; `interlock breaker list` names them.

            EXAMPLES
              interlock limit take catalog --wait 5s && curl https://api.example.com/items
              interlock limit show catalog
            """,
        subcommands: [Take.self, Show.self]
    )
}

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

        @Argument(help: "The service's name.", completion: .serviceNames)
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
            let limit = try await sidecar.withClient("limit take \(service)") { client in
                try await client.takeLimit(service, cost: cost, subject: subject, wait: wait.duration)
            }
            let reading = LimitReading(limit)
            try Terminal.show(reading, asJSON: output.json)
            guard reading.isLimited else { return }
            let pause = reading.retryAfter.isEmpty ? "" : "try again in \(reading.retryAfter), or "
            throw Failure("the limit of \(service) is used up: \(pause)wait for a turn with --wait", exitCode: .refused)
        }
    }
}

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

        @Argument(help: "The service's name.", completion: .serviceNames)
        var service: String

        @Option(help: ArgumentHelp("The tenant, user or address to look at.", valueName: "name"))
        var subject: String?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let limit = try await sidecar.withClient("limit show \(service)") { client in
                try await client.peekLimit(service, subject: subject)
            }
            try Terminal.show(LimitReading(limit), asJSON: output.json)
        }
    }
}
