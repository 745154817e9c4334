import ArgumentParser

/// `interlock lock`: leased locks.
struct LockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Take, keep, give back and look at leased locks.",
        discussion: """
            A lock is a name; a lease is one grant of it, for a limited time, with a token that proves it and a fence that is \
            higher than that of every grant before.

            EXAMPLES
              interlock lock acquire orders --ttl 30s --wait 10s
              interlock lock list --match 'orders*'
              interlock lock release orders "$token"
            """,
        subcommands: [Acquire.self, Renew.self, Release.self, Show.self, List.self, Break.self]
    )
}
