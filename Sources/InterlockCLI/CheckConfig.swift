import ArgumentParser
import InterlockSidecar

/// `interlock check-config`: what `interlock serve` would say about a file.
struct CheckConfig: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a configuration file.",
        discussion: """
            Reads the file as `interlock serve` would, with the environment that overrides it and that holds its API keys, and \
            starts nothing. Every mistake is one line on standard error with its place and what was expected; then it exits \
            with 1.

            EXAMPLES
              interlock check-config interlock.yaml
              interlock check-config interlock.yaml --json | jq -r '.problems[].message'
            """
    )

    @Argument(help: "Configuration in YAML.")
    var file: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let verdict = ConfigurationVerdict(file: file, environment: ProcessEnvironment.variables)
        if output.json {
            Terminal.show(try JSONOutput.text(verdict))
        } else {
            if verdict.isGood { Terminal.show(verdict.table) }
            for warning in verdict.warnings { Terminal.tell("\(file): warning: \(warning)") }
            for problem in verdict.problems { Terminal.tell(problem.description) }
        }
        guard verdict.isGood else { throw ExitCode.refused }
    }
}
