import ArgumentParser

extension LockCommand {
    /// `interlock lock renew`: extends a lease.
    struct Renew: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Extend a lease.",
            discussion: """
                Prints for how long the lease is valid from now on. Exits with 1 when it is lost: it lapsed, or was broken.

                EXAMPLES
                  interlock lock renew orders "$token" --ttl 30s
                """
        )

        @Argument(help: "The lock's name.")
        var name: String

        @Argument(help: "The token that the lock was acquired with.")
        var token: String

        @Option(help: ArgumentHelp("How long the lease lasts from now on: 500ms, 30s, 2m.", valueName: "duration"))
        var ttl = DurationArgument.standardLease

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let command = RenewLock(name: name, token: token, ttl: ttl.duration)
            let renewal = try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            guard let renewal else {
                throw Failure(
                    "the lease of \(name) is lost: stop the work it guards, and acquire the lock again", exitCode: .refused)
            }
            try Terminal.show(renewal, asJSON: output.json)
        }
    }
}
