import ArgumentParser

extension BreakerCommand {
    /// `interlock breaker force`: an operator's word.
    struct Force: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Force a breaker for the whole fleet, until auto.",
            discussion: """
                open refuses all calls; closed lets all through; disabled lets all through and never trips; auto hands it back \
                to itself. Where API keys are configured it needs one with the role admin.

                EXAMPLES
                  interlock breaker force catalog open
                  interlock breaker force catalog auto
                """
        )

        @Argument(help: "The service's name.")
        var service: String

        @Argument(help: "What it shall do.")
        var state: ForcedState

        @OptionGroup var sidecar: SidecarOptions

        func run() async throws {
            let command = ForceBreaker(service: service, state: state)
            try await SidecarConnection.open(sidecar) { try await $0.send(command) }
            switch state {
            case .open, .closed, .disabled:
                Terminal.show("The breaker of \(service) is forced \(state.rawValue); `breaker force \(service) auto` ends it.")
            case .auto:
                Terminal.show("The breaker of \(service) acts by itself.")
            }
        }
    }
}
