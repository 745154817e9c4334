import ArgumentParser

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
            let listing = try await SidecarConnection.open(sidecar) { connection in
                let (names, isComplete) = try await connection.lockNames(matching: match, limit: limit)
                return LockListing(locks: try await connection.readings(of: names), isComplete: isComplete)
            }
            try Terminal.show(listing, asJSON: output.json)
            if !listing.isComplete {
                Terminal.tell("interlock: there are more than \(limit) locks: list more with --limit, or fewer with --match")
            }
        }
    }
}
