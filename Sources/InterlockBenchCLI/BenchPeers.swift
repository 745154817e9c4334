import ArgumentParser
import Glibc
import InterlockCommandLine

/// `interlock bench peers`: executes the Python program that compares Interlock to other lock software. The program
/// needs the servers, tools and libraries that a clone of the repository has.
struct BenchPeers: ParsableCommand {
    static let program = "Benchmarks/judge.py"
    /// The way from the directory of a build's programs to the repository.
    private static let repository = "../../../"

    static let configuration = CommandConfiguration(
        commandName: "peers",
        abstract: "Judge other lock software under the same load and faults. Needs a clone of the repository.",
        discussion: "In a clone, `interlock bench peers --help` lists the options.")

    @Argument(parsing: .captureForPassthrough, help: ArgumentHelp("The arguments of the program.", valueName: "word"))
    var words: [String] = []

    func run() throws {
        let isHere = access(Self.program, X_OK) == 0
        guard let path = isHere ? Self.program : ExecutableDirectory.program(named: Self.repository + Self.program) else {
            throw CommandFailure(
                "`interlock bench peers` needs a clone of the repository, and there is no \(Self.program) in this directory; "
                    + "go to a clone, and run `make build` there",
                .usage)
        }
        // The first of the last arguments is `peers`.
        let reason = String(cString: strerror(ProgramArguments.execute(path, withLast: words.count + 1)))
        throw CommandFailure("cannot start \(path), which needs python3: \(reason)", .usage)
    }
}
