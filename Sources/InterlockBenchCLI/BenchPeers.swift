import ArgumentParser
import Glibc
import InterlockCommandLine

/// `interlock bench peers`: executes the Python program that compares Interlock with other lock software. The program
/// needs a clone of the repository, for its servers, tools and libraries.
struct BenchPeers: ParsableCommand {
    static let program = "Benchmarks/judge.py"
    /// The relative path from a build's programs to the repository.
    private static let repository = "../../../"

    static let configuration = CommandConfiguration(
        commandName: "peers",
        abstract: "Compare Interlock with other lock software under load and faults. Needs a clone of the repository.",
        discussion: "In a clone, `interlock bench peers --help` lists the options.")

    @Argument(parsing: .captureForPassthrough, help: ArgumentHelp("The arguments of the program.", valueName: "word"))
    var words: [String] = []

    func run() throws {
        let isHere = access(Self.program, X_OK) == 0
        guard let path = isHere ? Self.program : ExecutableDirectory.program(named: Self.repository + Self.program) else {
            throw CommandFailure(
                "`interlock bench peers` needs a clone of the repository, but this directory has no \(Self.program); "
                    + "change to a clone and run `make build` there",
                .usage)
        }
        // The first of the last arguments is `peers`.
        let reason = String(cString: strerror(ProgramArguments.execute(path, withLast: words.count + 1)))
        throw CommandFailure("cannot start \(path): \(reason); it needs python3", .usage)
    }
}
