import ArgumentParser
import InterlockClient
import InterlockCommandLine

/// `interlock lock`: leased locks.
struct LockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Acquire, renew, release and inspect leased locks.",
        discussion: """
            A lock is a name; a lease is one grant of it, for a limited time, with a token that proves it and a fence that is \
            higher than that of any earlier grant.

            EXAMPLES
              interlock lock acquire orders --ttl 30s --wait 10s
              interlock lock list --match 'orders*'
              interlock lock release orders "$token"
            """,
        subcommands: [Acquire.self, Renew.self, Release.self, Show.self, List.self, Grants.self, Break.self]
    )
}

extension LockCommand {
    /// `interlock lock show`: shows one lock.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show who holds a lock, how long the lease lasts, and how many wait.",
            discussion: """
                The token is never shown: it would let anyone release the lock. A holder that does not use Interlock has the \
                label "foreign". Exits with 1 when the lock is neither held nor waited for.

                EXAMPLES
                  interlock lock show orders
                  interlock lock show orders --json
                """,
            aliases: ["info"]
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            guard let lock = try await sidecar.withClient("lock show \(name)", { try await $0.locks.information(about: name) })
            else {
                throw Failure("the lock \(name) is not held, and nobody waits for it", .no)
            }
            try Terminal.show(LockReading(lock), asJSON: output.json)
        }
    }
}

extension LockCommand {
    /// `interlock lock list`: lists the locks that are held in the fleet.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the locks that are held in the whole fleet.",
            discussion: """
                EXAMPLES
                  interlock lock list
                  interlock lock list --match 'orders*' --limit 100
                  interlock lock list --json | jq -r '.locks[].name'
                """,
            aliases: ["ls"]
        )

        @Option(help: ArgumentHelp("Only names that match this pattern, as of the Redis command KEYS.", valueName: "glob"))
        var match = "*"

        @Option(help: ArgumentHelp("List at most this many.", valueName: "count"))
        var limit = LockListing.standardLimit

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit: expected a whole number of 1 or more, got \(limit)") }
        }

        func run() async throws {
            let listing = try await sidecar.withClient("lock list") { client in
                let (names, isComplete) = try await client.locks.names(matching: match, limit: limit)
                let locks = try await client.locks.information(about: names)
                return LockListing(locks: locks.map { LockReading($0) }, isComplete: isComplete)
            }
            try Terminal.show(listing, asJSON: output.json)
            if !listing.isComplete {
                Terminal.report("interlock: there are more than \(limit) locks: raise --limit, or narrow --match")
            }
        }
    }
}

extension LockCommand {
    /// `interlock lock grants`: lists the last grants through a sidecar.
    struct Grants: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the last 100 grants of locks through this sidecar.",
            discussion: """
                The newest first. They are in the sidecar's memory: those of other sidecars, and those from before it started, \
                are not among them. A lease ends "released", "lost" when Redis says that another has the lock or nobody, or \
                "lapsed" when its time was over.

                EXAMPLES
                  interlock lock grants
                  interlock lock grants orders --json
                """,
            aliases: ["history"]
        )

        @Argument(help: "Of this lock alone.", completion: .lockNames)
        var name: String?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let grants = try await sidecar.withClient("lock grants") { try await $0.locks.grants(of: name) }
            try Terminal.show(GrantListing(grants: grants.map { GrantReading($0) }), asJSON: output.json)
        }
    }
}

extension LockCommand {
    /// `interlock lock break`: takes a lock from its holder.
    struct Break: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take a lock from its holder.",
            discussion: """
                For operators: where API keys are configured it needs one with the role admin. A holder with a linked lease, \
                or one that asked for losses, is told at once; others find out when they renew. The next grant has a higher \
                fence. With --fence a lock that has passed on since you looked is left alone. Exits with 1 when the lock is \
                not held, or not under that fence.

                EXAMPLES
                  interlock lock break orders
                  interlock lock break orders --fence 1750000000000000
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Option(help: "Only while the grant with this fence holds it, as \"lock show\" tells it.")
        var fence: Int64?

        @OptionGroup var sidecar: SidecarOptions

        func validate() throws {
            if let fence, fence < 1 {
                throw ValidationError("--fence: expected the fence that \"lock show\" tells, 1 or more, got \(fence)")
            }
        }

        func run() async throws {
            guard try await sidecar.withClient("lock break \(name)", { try await $0.locks.breakLock(name, fence: fence) }) else {
                throw Failure("the lock \(name) is not held" + (fence.map { " under the fence \($0)" } ?? ""), .no)
            }
            Terminal.show("The lock \(name) is broken.")
        }
    }
}
