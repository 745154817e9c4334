import ArgumentParser

/// `interlock breaker`: circuit breakers.
struct BreakerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "breaker",
        abstract: "Look at circuit breakers, and force them.",
        discussion: """
            EXAMPLES
              interlock breaker list
              interlock breaker show catalog
              interlock breaker force catalog open
            """,
        subcommands: [List.self, Show.self, Force.self]
    )
}
