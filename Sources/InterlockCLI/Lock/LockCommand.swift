import ArgumentParser
import InterlockClient

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

extension LockCommand {
    /// `interlock lock show`: one lock.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show who holds a lock, for how long yet, and how many wait.",
            discussion: """
                The token is never shown: whoever has it can release the lock. A holder that is no Interlock has the label \
                "foreign". Exits with 1 when nobody holds the lock or waits for it.

                EXAMPLES
                  interlock lock show orders
                  interlock lock show orders --json
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            guard let lock = try await sidecar.withClient("lock show \(name)", { try await $0.inspectLock(name) }) else {
                throw Failure("nobody holds the lock \(name) or waits for it", exitCode: .refused)
            }
            try Terminal.show(LockReading(lock), asJSON: output.json)
        }
    }
}

extension LockCommand {
    /// `interlock lock list`: the locks that are held in the fleet.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the locks that are held in the whole fleet.",
            discussion: """
                EXAMPLES
                  interlock lock list
                  interlock lock list --match 'orders*' --limit 100
                  interlock lock list --json | jq -r '.locks[].name'
                """
        )

        @Option(help: ArgumentHelp("Only names that match, as the KEYS command of Redis matches.", valueName: "glob"))
        var match = "*"

        @Option(help: ArgumentHelp("List no more than so many.", valueName: "count"))
        var limit = LockListing.standardLimit

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit: expected a whole number of 1 or more, got \(limit)") }
        }

        func run() async throws {
            let listing = try await sidecar.withClient("lock list") { client in
                let (names, isComplete) = try await client.lockNames(matching: match, limit: limit)
                let locks = try await client.inspectLocks(names)
                return LockListing(locks: locks.map { LockReading($0) }, isComplete: isComplete)
            }
            try Terminal.show(listing, asJSON: output.json)
            if !listing.isComplete {
                Terminal.tell("interlock: there are more than \(limit) locks: list more with --limit, or fewer with --match")
            }
        }
    }
}

extension LockCommand {
    /// `interlock lock break`: takes a lock from whoever has it.
    struct Break: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take a lock from whoever has it.",
            discussion: """
                For operators: where API keys are configured it needs one with the role admin. The holder is not told before \
                it renews; the next grant has a higher fence. Exits with 1 when nobody holds the lock.

                EXAMPLES
                  interlock lock break orders
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @OptionGroup var sidecar: SidecarOptions

        func run() async throws {
            guard try await sidecar.withClient("lock break \(name)", { try await $0.breakLock(name) }) else {
                throw Failure("the lock \(name) is not held", exitCode: .refused)
            }
            Terminal.show("The lock \(name) is broken.")
        }
    }
}
