import ArgumentParser

extension LockCommand {
    /// `interlock lock release`: gives a lock back.
    struct Release: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give a lock back.",
            discussion: """
                Exits with 1 when the token does not hold the lock: the lease lapsed, or was broken.

                EXAMPLES
                  interlock lock release orders "$token"
                """
        )

        @Argument(help: "The lock's name.")
        var name: String

        @Argument(help: "The token that the lock was acquired with.")
        var token: String

        @OptionGroup var sidecar: SidecarOptions

        func run() async throws {
            let command = ReleaseLock(name: name, token: token)
            guard try await SidecarConnection.open(sidecar, { try await $0.send(command) }) else {
                throw Failure(
                    "the lock \(name) is not held by that token: the lease lapsed, or was broken", exitCode: .refused)
            }
            Terminal.show("The lock \(name) is released.")
        }
    }
}
