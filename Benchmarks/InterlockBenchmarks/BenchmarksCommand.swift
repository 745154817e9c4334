import ArgumentParser

/// The load generators of `make bench` that must consume less CPU time than the servers they measure. Each prints its
/// figures as one line of JSON. `Benchmarks/run.py` starts the servers, runs these programs and their peers, and
/// compares the figures.
@main
struct BenchmarksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "InterlockBenchmarks",
        abstract: "Measure locks through sidecars and through the library.",
        subcommands: [HandoverCommand.self, LibraryCommand.self, LinkedCommand.self]
    )
}
