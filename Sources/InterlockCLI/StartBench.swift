import ArgumentParser
import Glibc
import InterlockCommandLine

/// `interlock bench`: executes the separate program `interlock-bench`, which production hosts do not need.
struct StartBench: ParsableCommand {
    static let program = "interlock-bench"

    static let configuration = CommandConfiguration(
        commandName: "bench", abstract: "Generate load on sidecars, inject faults, and check what clients observed.",
        discussion: "`interlock bench --help` lists its commands.")

    @Argument(parsing: .captureForPassthrough, help: ArgumentHelp("The arguments of interlock-bench.", valueName: "word"))
    var words: [String] = []

    func run() throws {
        let path = ExecutableDirectory.program(named: Self.program)
        // The first of the last arguments is `bench`.
        let errorNumber = ProgramArguments.execute(path ?? Self.program, withLast: words.count + 1, isSearched: path == nil)
        let reason = String(cString: strerror(errorNumber))
        throw CommandFailure(
            "cannot start \(Self.program), which `interlock bench` needs next to this program or in PATH: \(reason); to build "
                + "it in a clone of the repository, run `make build`",
            .usage)
    }
}
