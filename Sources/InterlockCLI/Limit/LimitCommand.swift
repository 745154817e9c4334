import ArgumentParser

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
