import ArgumentParser

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

        @Argument(help: "The lock's name.")
        var name: String

        @OptionGroup var sidecar: SidecarOptions

        func run() async throws {
            let command = BreakLock(name: name)
            guard try await SidecarConnection.open(sidecar, { try await $0.send(command) }) else {
                throw Failure("the lock \(name) is not held", exitCode: .refused)
            }
            Terminal.show("The lock \(name) is broken.")
        }
    }
}
