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
        abstract: "Put load on sidecars, inject faults, and check what clients saw.",
        discussion: """
            Operations are due at a steady rate, whether sidecars keep up or not, and latency counts from when an operation \
            was due. Everything that clients saw is checked: fences, exclusion, limits, breakers, waits, recovery. Without \
            --sidecars it starts a fleet and a Redis, and stops them afterwards.

            EXIT CODES
              0   done, and every guarantee held
              1   a guarantee was violated: see the violations in the table
              64  the command line cannot be understood
              69  the sidecars cannot be reached, or cannot be started

            EXAMPLES
              interlock bench lock --rate 2000 --names 100 --skew zipf:1.1
              interlock bench mixed --fleet 4 --faults all --duration 5m --report bench.html
              interlock bench limit --sidecars 10.0.0.7:7379 10.0.0.8:7379 --service catalog
            """,
        version: SidecarVersion.current,
        subcommands: [
            BenchLock.self, BenchLimit.self, BenchPermit.self, BenchProxy.self, BenchMixed.self, BenchSimulate.self,
            BenchCheck.self,
        ]
    )

    /// The prefix of ArgumentParser's own errors, instead of "Error: ".
    static let _errorPrefix = "interlock: "

    static func main() { begin() }
}

/// The command `interlock bench lock`.
struct BenchLock: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock", abstract: "Lock cycles: acquire, hold, release.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.lock) }
}

/// The command `interlock bench limit`.
struct BenchLimit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "limit", abstract: "Limit decisions: LIMIT.TAKE.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.limit) }
}

/// The command `interlock bench permit`.
struct BenchPermit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "permit", abstract: "Guarded calls: a permit, a call, its report.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.permit) }
}

/// The command `interlock bench proxy`.
struct BenchProxy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "proxy", abstract: "Requests through the guarded proxy.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.proxy) }
}

/// The command `interlock bench mixed`.
struct BenchMixed: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mixed",
        abstract: "All of these at once, with clients that also forget, overstay and vanish.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.mixed) }
}

/// The command `interlock bench check`, which checks a history that a run recorded.
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

    @Argument(help: "The history.", completion: .file())
    var file: String

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let report: CheckReport
        do {
            report = try HistoryCheck(replaying: file).report
        } catch {
            throw Failure("\(error)", .no)
        }
        try Terminal.show(CheckReading(report: report), asJSON: output.json)
        guard report.isClean else { throw Failure(report.verdict, .no) }
    }
}

/// The result of a check, as `bench check` shows it.
struct CheckReading: Answer {
    var report: CheckReport

    func encode(to encoder: any Encoder) throws { try report.encode(to: encoder) }

    var table: String { (report.violations.map(\.description) + [report.verdict]).joined(separator: "\n") }
}

/// The former command `interlock bench simulate`. Names its replacement for one more version.
struct BenchSimulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Moved: the simulation is no longer part of the binary.", shouldDisplay: false)

    @Argument(parsing: .allUnrecognized, help: .hidden)
    var arguments: [String] = []

    func run() throws {
        throw Failure(
            "the simulation is now run from a clone of the repository: make simulate ARGS='--seed 7'",
            .usage)
    }
}
