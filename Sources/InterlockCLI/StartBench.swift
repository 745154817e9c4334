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
        // The arguments are passed as bytes, because they need not be UTF-8. The first of them, `bench`, takes the
        // place of the program's name.
        let words = ProgramArguments.pointer(toLast: words.count + 1)
        if let path = ExecutableDirectory.program(named: Self.program) { execv(path, words) } else { execvp(Self.program, words) }
        let reason = String(cString: strerror(errno))
        throw CommandFailure(
            "cannot start \(Self.program), which `interlock bench` needs next to this program or in PATH: \(reason); to build "
                + "it in a clone of the repository, run `make build`",
            .usage)
    }
}
