import ArgumentParser

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

        @Argument(help: "The lock's name.")
        var name: String

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let command = InspectLock(name: name)
            let reading = try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            guard let reading else {
                throw Failure("nobody holds the lock \(name) or waits for it", exitCode: .refused)
            }
            try Terminal.show(reading, asJSON: output.json)
        }
    }
}
