import ArgumentParser
import FoundationEssentials
import Glibc
import InterlockCore
import InterlockJudge
import Simulation

/// The program of `make simulate`, which runs the product in simulated worlds.
@main
struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Run the product in simulated worlds, each determined by a seed, and check its clients' histories.",
        discussion: """
            Each world has a fleet of real sidecars, simulated Redis servers with the product's scripts, clients, operators, other \
            programs and faults. A finding without a known cause ends with exit code 1. To reproduce it, pass its seed with --seed: \
            the same seed always produces the same history.

            EXIT CODES
              0   no findings, or only known ones
              1   a finding without a known cause
              64  invalid command line

            EXAMPLES
              make simulate ARGS='--seeds 1000'
              make simulate ARGS='--seed 7'
              make simulate ARGS='--seed 7 --shrink'
            """)

    @Option(help: ArgumentHelp("Run only the world with this seed.", valueName: "n"))
    var seed: UInt64?

    @Option(help: ArgumentHelp("The number of worlds.", valueName: "n"))
    var seeds = 100

    @Option(help: ArgumentHelp("The seed of the first world.", valueName: "n"))
    var first: UInt64 = 1

    @Option(help: ArgumentHelp("The number of client operations in each world.", valueName: "n"))
    var operations = 10_000

    @Flag(help: "Shrink a finding to the faults and clients that it needs, and print its story.")
    var shrink = false

    @Option(help: ArgumentHelp("The finding to shrink: a promise, or the name of a known finding.", valueName: "name"))
    var finding: String?

    @Flag(help: "Stop at the first world with a finding without a known cause.")
    var untilFound = false

    @Option(help: ArgumentHelp("Print the last n events of each history.", valueName: "n"))
    var tail = 0

    @Option(help: ArgumentHelp("Write the history of --seed to a file, for `interlock bench check`.", valueName: "file"))
    var history: String?

    @Option(help: ArgumentHelp("Write each call of a script to a file, for `make specs-traces`.", valueName: "file"))
    var scripts: String?

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("Plant a bug: replace the first text with the second in each script.", valueName: "text"))
    var replace: [String] = []

    @Flag(help: "Print everything that Redis reads and writes.")
    var traffic = false

    @Flag(help: "Print the digest of each history. Equal seeds have equal digests.")
    var digest = false

    @Flag(help: "Print the totals as JSON.")
    var json = false

    func validate() throws {
        guard (1...10_000_000).contains(seeds) else { throw ValidationError("--seeds: expected 1 to 10000000, got \(seeds)") }
        // A world keeps its history in memory.
        guard (1...1_000_000).contains(operations) else {
            throw ValidationError("--operations: expected 1 to 1000000, got \(operations)")
        }
        guard history == nil || seed != nil else { throw ValidationError("--history needs --seed") }
        guard replace.isEmpty || replace.count == 2 else {
            throw ValidationError("--replace: expected 2 texts, the old and the new one, got \(replace.count)")
        }
        guard !shrink || seed != nil else { throw ValidationError("--shrink needs --seed") }
        guard !shrink || replace.isEmpty else { throw ValidationError("--shrink cannot plant the bug of --replace") }
    }

    /// Restarts the program in an environment in which dictionaries have the same order in every process.
    private func fixHashing() {
        let name = "SWIFT_DETERMINISTIC_HASHING"
        guard getenv(name) == nil else { return }
        setenv(name, "1", 1)
        execv("/proc/self/exe", CommandLine.unsafeArgv)
    }

    func run() throws {
        fixHashing()
        var totals = Totals()
        var progress = Progress()
        let scriptFile = try scripts.map(LineFile.init)
        var isReplaced = replace.isEmpty
        for seed in self.seed.map({ [$0] }) ?? Array(first..<first + UInt64(seeds)) {
            let world = World(seed: seed)
            if traffic { world.tap { print($0) } }
            if replace.count == 2 { world.replaceInScripts(replace[0], with: replace[1]) }
            if let scriptFile { world.traceScripts { scriptFile.write($0) } }
            let result = world.run(operations: operations)
            totals.add(result)
            isReplaced = isReplaced || world.hasReplacedInScripts
            if let history { try result.write(to: history) }
            if digest { print("seed \(seed): digest \(String(result.digest, radix: 16))") }
            for event in result.events.suffix(tail) {
                print("\(event.at.nanoseconds / 1_000_000 - 1_000_000) \(event.kind)")
            }
            if !json { printFindings(of: result, totals) }
            // Flush, so that a redirected output contains everything known so far.
            fflush(nil)
            if shrink, var shrinker = Shrinker(result, operations: operations, target: finding) {
                shrinker.run { Progress.log($0) }
                for line in shrinker.story { print(line) }
            }
            progress.update(totals, of: self.seed == nil ? seeds : 1)
            if untilFound, !result.unknownFindings.isEmpty { break }
        }
        try scriptFile?.close()
        try totals.write(asJSON: json)
        guard isReplaced else {
            throw ValidationError("--replace: no script that ran contains \(replace[0].debugDescription)")
        }
        if totals.unknown > 0 { throw ExitCode(1) }
    }

    private func printFindings(of result: WorldResult, _ totals: Totals) {
        for violation in result.unknownFindings.prefix(seed == nil ? 2 : 20) {
            print("seed \(result.seed): \(violation)")
        }
        // Prints a known finding only for the first world that shows it.
        let knownFindings = result.knownFindings.sorted { $0.key < $1.key }
        for (name, finding) in knownFindings where totals.knownSeeds[name] == result.seed {
            print("seed \(result.seed): known \(name), \(finding.count) times, first: \(finding.first)")
        }
    }
}

/// A text file that is written line by line. `close` reports whether a write failed.
private final class LineFile {
    private let path: String
    private let file: UnsafeMutablePointer<FILE>

    init(path: String) throws {
        self.path = path
        guard let file = fopen(path, "w") else { throw LineFile.error(path) }
        self.file = file
    }

    func write(_ line: String) {
        fputs(line, file)
        fputc(10, file)
    }

    func close() throws {
        let hasFailed = ferror(file) != 0
        guard fclose(file) == 0, !hasFailed else { throw LineFile.error(path) }
    }

    private static func error(_ path: String) -> ValidationError {
        ValidationError("--scripts: cannot write \(path): \(String(cString: strerror(errno)))")
    }
}

/// The totals of all worlds.
struct Totals: Encodable {
    var seeds = 0
    var operations = 0
    var simulatedSeconds = 0.0
    var seconds = 0.0
    var faults = 0
    /// The number of worlds by Redis topology.
    var topologies: [String: Int] = [:]
    /// The number of leases lost in failovers, where this is documented.
    var lostLeaseCount = 0
    /// The number of findings by known cause.
    var known: [String: Int] = [:]
    /// The first seed that showed each known cause.
    var knownSeeds: [String: UInt64] = [:]
    /// The number of findings without a known cause.
    var unknown = 0
    /// The seed of the first finding without a known cause.
    var seed: UInt64?
    var invariant: String?
    var finding: String?
    private let start = ContinuousClock.now

    private enum CodingKeys: String, CodingKey {
        case seeds, operations, simulatedSeconds, seconds, faults, topologies, known, knownSeeds, unknown, seed, finding
        case lostLeaseCount = "leasesLost"
        case invariant = "promise"
    }

    mutating func add(_ result: WorldResult) {
        seeds += 1
        operations += result.operations
        simulatedSeconds += result.seconds
        faults += result.faults.count
        topologies[result.topology, default: 0] += 1
        lostLeaseCount += result.check.lostLeaseCount
        for (name, finding) in result.knownFindings {
            known[name, default: 0] += finding.count
            if knownSeeds[name] == nil { knownSeeds[name] = result.seed }
        }
        unknown += result.unknownFindings.count
        if seed == nil, let first = result.unknownFindings.first {
            (seed, invariant, finding) = (result.seed, first.invariant.rawValue, first.finding)
        }
        let elapsed = start.duration(to: .now).components
        seconds = Double(elapsed.seconds) + Double(elapsed.attoseconds) / 1e18
    }

    func write(asJSON: Bool) throws {
        guard !asJSON else {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys]
            return print(String(decoding: try encoder.encode(self), as: UTF8.self))
        }
        let names = known.sorted { $0.key < $1.key }
            .map { "\($0.key) \($0.value) (first --seed \(knownSeeds[$0.key] ?? 0))" }.joined(separator: ", ")
        print(
            """
            \(seeds) worlds, \(operations) operations, \(faults) faults, \(Int(simulatedSeconds)) simulated seconds in \(Int(seconds)) s: \
            \(Int(Double(operations) / seconds)) operations/s, \(Int(simulatedSeconds / seconds)) times real time
            Redis: \(topologies.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")); leases lost to failovers: \(lostLeaseCount)
            known findings: \(names.isEmpty ? "none" : names)
            others: \(unknown)\(seed.map { ", the first with --seed \($0)" } ?? "")
            """)
    }
}

/// Reports the progress of a long run on standard error.
struct Progress {
    private var next = ContinuousClock.now + .seconds(2)

    mutating func update(_ totals: Totals, of seeds: Int) {
        guard ContinuousClock.now > next else { return }
        next += .seconds(5)
        Self.log(
            "\(totals.seeds) of \(seeds) worlds, \(totals.operations) operations, \(totals.unknown) findings without a known cause"
        )
    }

    static func log(_ line: String) {
        let bytes = Array("simulate: \(line)\n".utf8)
        _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
