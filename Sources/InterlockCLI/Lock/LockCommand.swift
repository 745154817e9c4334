import ArgumentParser
import InterlockClient
import InterlockCommandLine

/// `interlock lock`: leased locks.
struct LockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Acquire, renew, release and inspect leased locks.",
        discussion: """
            A lock is a name. A lease is a grant of the lock for a limited time. It has a token, which proves ownership, and a \
            fence, which is higher than the fence of every earlier grant.

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
            abstract: "Show a lock's holder, its remaining time and its queue.",
            usage: "interlock lock show <name> [<options>]",
            discussion: """
                Never shows the token, because anyone could release the lock with it. A holder that does not use Interlock has \
                the label "foreign". Exits with 1 if nobody holds the lock or waits for it.

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
                throw CommandFailure("the lock \(name) is not held, and no one is waiting for it", .no)
            }
            try Terminal.show(LockDetails(lock), asJSON: output.json)
        }
    }
}

extension LockCommand {
    /// `interlock lock list`: lists the locks that are held in the fleet.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the locks that are held in the whole fleet.",
            usage: "interlock lock list [<options>]",
            discussion: """
                EXAMPLES
                  interlock lock list
                  interlock lock list --match 'orders*' --limit 100
                  interlock lock list --json | jq -r '.locks[].name'
                """,
            aliases: ["ls"]
        )

        @Option(help: ArgumentHelp("List only names that match this pattern, as in the Redis command KEYS.", valueName: "glob"))
        var match = "*"

        @Option(help: ArgumentHelp("The maximum number of locks to list.", valueName: "count"))
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
                return LockListing(locks: locks.map { LockDetails($0) }, isComplete: isComplete)
            }
            try Terminal.show(listing, asJSON: output.json)
            if !listing.isComplete {
                Terminal.report("interlock: the list is incomplete: raise --limit (now \(limit)), or narrow --match")
            }
        }
    }
}

extension LockCommand {
    /// `interlock lock grants`: lists the last grants through a sidecar.
    struct Grants: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the last 100 locks that this sidecar granted.",
            usage: "interlock lock grants [<name>] [<options>]",
            discussion: """
                Lists the newest grant first. The list is kept in the sidecar's memory, so it excludes grants of other \
                sidecars and grants from before its start. A lease ends as "released", as "lost" if Redis reports that it no \
                longer holds the lock, or as "lapsed" if its time ran out.

                EXAMPLES
                  interlock lock grants
                  interlock lock grants orders --json
                """,
            aliases: ["history"]
        )

        @Argument(help: "Show only the grants of this lock.", completion: .lockNames)
        var name: String?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let grants = try await sidecar.withClient("lock grants") { try await $0.locks.grants(of: name) }
            try Terminal.show(GrantListing(grants: grants.map { GrantDetails($0) }), asJSON: output.json)
        }
    }
}

extension LockCommand {
    /// `interlock lock break`: takes a lock from its holder.
    struct Break: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Release a lock that another client holds.",
            usage: "interlock lock break <name> [<options>]",
            discussion: """
                If API keys are configured, this command needs one with the role admin. Holders with a linked lease, and \
                holders that subscribed to losses, are notified immediately; others notice when they renew. The next grant has \
                a higher fence. With --fence, a lock that another client has since acquired is not affected. Exits with 1 if the \
                lock is not held, or is held with another fence.

                EXAMPLES
                  interlock lock break orders
                  interlock lock break orders --fence 1750000000000000
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Option(help: "Break only the lease with this fence, as shown by `lock show`.")
        var fence: Int64?

        @OptionGroup var sidecar: SidecarOptions

        func validate() throws {
            if let fence, fence < 1 {
                throw ValidationError("--fence: expected a fence from `lock show`, 1 or higher, got \(fence)")
            }
        }

        func run() async throws {
            guard try await sidecar.withClient("lock break \(name)", { try await $0.locks.breakLock(name, fence: fence) }) else {
                throw CommandFailure("the lock \(name) is not held" + (fence.map { " with the fence \($0)" } ?? ""), .no)
            }
            Terminal.show("The lock \(name) is broken.")
        }
    }
}
