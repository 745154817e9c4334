import ArgumentParser

extension LockCommand {
    /// `interlock lock acquire`: takes a lock.
    struct Acquire: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take a lock.",
            discussion: """
                Prints the token to renew and release it with, the fence to show to the guarded resource, and for how long \
                the lease is valid. Nothing renews it by itself. Exits with 1 when another holds the lock.

                EXAMPLES
                  interlock lock acquire orders
                  interlock lock acquire orders --ttl 2m --wait 10s --label nightly-import
                  token=$(interlock lock acquire orders --json | jq -r .token)
                """
        )

        @Argument(help: "The lock's name.")
        var name: String

        @Option(help: ArgumentHelp("How long the lease lasts: 500ms, 30s, 2m.", valueName: "duration"))
        var ttl = DurationArgument.standardLease

        @Option(help: ArgumentHelp("How long to wait while another holds it: 500ms, 10s.", valueName: "duration"))
        var wait = DurationArgument.none

        @Option(
            help: ArgumentHelp(
                "A token of your own. Asking again with it gives the same lease, extended: a retry is safe.", valueName: "token"))
        var owner: String?

        @Option(help: ArgumentHelp("What others see of the holder.", valueName: "text"))
        var label: String?

        @OptionGroup var sharing: SharingOptions
        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let command = AcquireLock(
                name: name, ttl: ttl.duration, wait: wait.duration, owner: owner, label: label,
                mode: sharing.mode)
            let grant = try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            guard let grant else {
                throw Failure(
                    "the lock \(name) is held by another: wait for it with --wait, or see `interlock lock show \(name)`",
                    exitCode: .refused)
            }
            try Terminal.show(grant, asJSON: output.json)
        }
    }
}
