import ArgumentParser

/// The load generators of `make bench` that must be cheaper than what they measure. Each prints its figures as JSON, one
/// line; `Benchmarks/run.py` starts the servers, runs these beside their peers, and judges.
@main
struct BenchmarksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "InterlockBenchmarks",
        abstract: "Load on locks: through sidecars, and through the library.",
        subcommands: [HandoverCommand.self, LibraryCommand.self, LinkedCommand.self]
    )
}
