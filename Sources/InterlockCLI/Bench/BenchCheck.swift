internal import InterlockJudge
import ArgumentParser
import InterlockLoad

/// `interlock bench check`: judges a history that a run wrote down.
struct BenchCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Judge a history that a run has written down with --history.",
        discussion: """
            EXAMPLES
              interlock bench mixed --faults all --history run.jsonl
              interlock bench check run.jsonl
            """
    )

    @Argument(help: "The history.")
    var file: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let report: CheckReport
        do {
            report = try HistoryCheck(replaying: file).report
        } catch {
            throw Failure("\(error)", exitCode: .refused)
        }
        try Terminal.show(CheckReading(report: report), asJSON: output.json)
        guard report.isClean else { throw Failure(report.verdict, exitCode: .refused) }
    }
}

/// A judgement, as `bench check` shows it.
struct CheckReading: Answer {
    var report: CheckReport

    func encode(to encoder: any Encoder) throws { try report.encode(to: encoder) }

    var table: String { (report.violations.map(\.description) + [report.verdict]).joined(separator: "\n") }
}
