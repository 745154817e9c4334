import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

/// `interlock breaker`: circuit breakers.
struct BreakerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "breaker",
        abstract: "Inspect and force circuit breakers.",
        discussion: """
            EXAMPLES
              interlock breaker list
              interlock breaker show catalog
              interlock breaker force catalog open
            """,
        subcommands: [List.self, Show.self, Force.self]
    )
}

extension BreakerCommand {
    /// `interlock breaker list`: lists the breakers of all services.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the breakers of all services.",
            discussion: """
                STATE is this sidecar's, FLEET the shared one; they differ for a moment after a change.

                EXAMPLES
                  interlock breaker list
                  interlock breaker list --json | jq -r '.services[] | select(.state == "open") | .service'
                """,
            aliases: ["ls"]
        )

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let breakers = try await sidecar.withClient("breaker list") { try await $0.breakers.all() }
            try Terminal.show(BreakerListing(services: breakers.map { BreakerReading($0) }), asJSON: output.json)
        }
    }
}

extension BreakerCommand {
    /// `interlock breaker show`: shows one breaker.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a service's breaker: its state, why, since when and until when.",
            discussion: """
                EXAMPLES
                  interlock breaker show catalog
                  interlock breaker show catalog --json
                """,
            aliases: ["info"]
        )

        @Argument(help: "The service's name.", completion: .serviceNames)
        var service: String

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let breaker = try await sidecar.withClient("breaker show \(service)") { try await $0.breakers.status(of: service) }
            try Terminal.show(BreakerReading(breaker), asJSON: output.json)
        }
    }
}

extension BreakerCommand {
    /// `interlock breaker force`: forces a breaker's state, or returns it to automatic.
    struct Force: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Force a breaker for the whole fleet, for a time or until auto.",
            discussion: """
                open refuses all calls; closed lets all through; disabled lets all through and never trips; auto ends a forced \
                state. Where API keys are configured it needs one with the role admin.

                EXAMPLES
                  interlock breaker force catalog open --for 10m --reason "moving the database"
                  interlock breaker force catalog disabled
                  interlock breaker force catalog auto
                """
        )

        @Argument(help: "The service's name.", completion: .serviceNames)
        var service: String

        @Argument(help: "The state to force, or auto.")
        var state: ForcedState

        @Option(
            name: .customLong("for"),
            help: .duration("How long to force it: 10m, 2h. Without it, until auto."),
            transform: DurationArgument.init(argument:))
        var span: DurationArgument?

        @Option(help: ArgumentHelp("The reason, for others to read.", valueName: "text"))
        var reason: String?

        @OptionGroup var sidecar: SidecarOptions

        func validate() throws {
            guard let span else { return }
            guard state != .auto else { throw ValidationError("auto takes no --for: drop it, or force another state") }
            guard span.milliseconds > 0 else { throw ValidationError("--for: expected 1ms or more") }
        }

        func run() async throws {
            try await sidecar.withClient("breaker force \(service)") { client in
                try await client.breakers.force(service, to: state.forced, for: span?.duration, reason: reason ?? "")
            }
            switch state {
            case .open, .closed, .disabled:
                let end = span.map { " for \(ReadableText.span(milliseconds: $0.milliseconds))" } ?? ""
                Terminal.show(
                    "The breaker of \(service) is forced \(state.rawValue)\(end); `breaker force \(service) auto` ends it.")
            case .auto:
                Terminal.show("The breaker of \(service) is no longer forced.")
            }
        }
    }
}
