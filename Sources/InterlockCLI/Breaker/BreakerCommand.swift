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
            usage: "interlock breaker list [<options>]",
            discussion: """
                STATE is this sidecar's state and FLEET the shared state; they differ briefly after a change. CAUSE is shown \
                for breakers that are not closed.

                EXAMPLES
                  interlock breaker list
                  interlock breaker list --json |
                    jq -r '.services[] | select(.state == "open") | .service'
                """,
            aliases: ["ls"]
        )

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let breakers = try await sidecar.withClient("breaker list") { try await $0.breakers.all() }
            try Terminal.show(BreakerListing(services: breakers.map { BreakerDetails($0) }), asJSON: output.json)
        }
    }
}

extension BreakerCommand {
    /// `interlock breaker show`: shows one breaker.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a breaker's state, its cause, and when the state ends.",
            usage: "interlock breaker show <service> [<options>]",
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
            try Terminal.show(BreakerDetails(breaker), asJSON: output.json)
        }
    }
}

extension BreakerCommand {
    /// `interlock breaker force`: forces a breaker's state, or returns it to automatic.
    struct Force: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Force a breaker's state for the whole fleet.",
            usage: "interlock breaker force <service> <state> [<options>]",
            discussion: """
                open refuses all calls; closed allows all calls and never trips; disabled is the same, but still counts \
                outcomes; auto ends a forced state. If API keys are configured, this command needs one with the role admin.

                EXAMPLES
                  interlock breaker force catalog open --for 10m --reason maintenance
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
            help: .duration("How long to force it, such as 10m or 2h; by default, until auto."),
            transform: DurationArgument.init(argument:))
        var span: DurationArgument?

        @Option(help: ArgumentHelp("The reason, shown to other operators.", valueName: "text"))
        var reason: String?

        @OptionGroup var sidecar: SidecarOptions

        func validate() throws {
            guard let span else { return }
            guard state != .auto else { throw ValidationError("--for cannot be used with auto; remove it") }
            guard span.milliseconds > 0 else { throw ValidationError("--for: expected at least 1ms") }
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
