import ArgumentParser
import InterlockCommandLine
import InterlockCore
internal import InterlockJudge
import InterlockLoad

/// The program `interlock-bench`, also run as `interlock bench`: load, faults and checks.
@main
struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "interlock bench",
        abstract: "Generate load, inject faults, and check what clients observed.",
        discussion: """
            Operations are scheduled at a fixed rate, even if the sidecars cannot keep up, and latency is measured from the \
            scheduled time. Every client observation is checked: fences, exclusion, limits, breakers, waits and recovery. \
            Without --sidecars, starts its own fleet and Redis, and stops them afterwards.

            EXIT CODES
              0   success: every guarantee held
              1   a guarantee was violated (the table lists the violations), a report could
                  not be written, or a history could not be read
              64  invalid command line
              69  the sidecars cannot be reached or started

            EXAMPLES
              interlock bench lock --rate 2000 --names 100 --skew zipf:1.1
              interlock bench mixed --faults all --duration 5m --report bench.html
              interlock bench limit --sidecars 10.0.0.7:7379 --service catalog
            """,
        version: SidecarVersion.current,
        subcommands: [
            BenchLock.self, BenchLimit.self, BenchPermit.self, BenchProxy.self, BenchMixed.self, BenchSimulate.self,
            BenchCheck.self, BenchPeers.self,
        ]
    )

    /// The prefix of ArgumentParser's own errors, which would otherwise be "Error: ".
    static let _errorPrefix = "interlock: "

    static func main() { begin() }
}

/// `interlock bench lock`: acquires, holds and releases locks.
struct BenchLock: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock", abstract: "Acquire, hold and release locks.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.lock) }
}

/// `interlock bench limit`: takes from limits.
struct BenchLimit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "limit", abstract: "Take from limits with LIMIT.TAKE.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.limit) }
}

/// `interlock bench permit`: makes guarded calls.
struct BenchPermit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "permit", abstract: "Make guarded calls: acquire a permit, call, report.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.permit) }
}

/// `interlock bench proxy`: sends requests through the guarded proxy.
struct BenchProxy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "proxy", abstract: "Send requests through the guarded proxy.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.proxy) }
}

/// `interlock bench mixed`: performs all of these operations concurrently.
struct BenchMixed: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mixed",
        abstract: "Run all four workloads concurrently, with misbehaving clients.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.mixed) }
}

/// `interlock bench check`: checks a history that a run recorded.
struct BenchCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check a history that a run recorded with --history.",
        discussion: """
            EXAMPLES
              interlock bench mixed --faults all --history run.jsonl
              interlock bench check run.jsonl
            """
    )

    @Argument(help: "The history file.", completion: .file())
    var file: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let report: CheckReport
        do {
            report = try HistoryCheck(replaying: file).report
        } catch {
            throw CommandFailure("\(error)", .no)
        }
        try Terminal.show(HistoryCheckOutput(report: report), asJSON: output.json)
        guard report.isClean else { throw CommandFailure(report.verdict, .no) }
    }
}

/// The output of `bench check`.
struct HistoryCheckOutput: CommandOutput {
    var report: CheckReport

    func encode(to encoder: any Encoder) throws { try report.encode(to: encoder) }

    var table: String { (report.violations.map(\.description) + [report.verdict]).joined(separator: "\n") }
}

/// `interlock bench simulate`: the former command, which names its replacement for one more version.
struct BenchSimulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Moved: the simulation is no longer part of this program.", shouldDisplay: false)

    @Argument(parsing: .allUnrecognized, help: .hidden)
    var arguments: [String] = []

    func run() throws {
        throw CommandFailure(
            "the simulation has moved: in a clone of the repository, run make simulate ARGS='--seed 7'",
            .usage)
    }
}
