import ArgumentParser
import InterlockSidecar

/// `interlock`: the sidecar, and the tools that talk to one.
@main
struct InterlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "interlock",
        abstract: "Leased locks, rate limits and circuit breakers for a fleet, over one shared Redis.",
        discussion: """
            Run a sidecar beside each copy of a service, then speak to it with any Redis client, with curl, or with the
            commands below.

            EXAMPLES
              interlock serve
              interlock serve --redis redis://127.0.0.1:6379 --config interlock.yaml
              interlock lock acquire orders --ttl 30s
              interlock status
            """,
        version: SidecarVersion.current,
        subcommands: [Serve.self]
    )
}
