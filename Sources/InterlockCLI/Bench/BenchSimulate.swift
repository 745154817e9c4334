import ArgumentParser

/// `interlock bench simulate`: says for one version what has taken its place.
struct BenchSimulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Moved: the simulation is no longer part of the binary.", shouldDisplay: false)

    @Argument(parsing: .allUnrecognized, help: .hidden)
    var arguments: [String] = []

    func run() throws {
        throw Failure(
            "the simulation runs the product's own code now, from a clone of the repository: make simulate ARGS='--seed 7'",
            exitCode: .usage)
    }
}
