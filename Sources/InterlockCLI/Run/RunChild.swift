import ArgumentParser
import Glibc
import InterlockCommandLine

/// The program that `interlock run` starts first. It performs the setup that only the child process itself can do, then
/// executes the command.
struct RunChild: ParsableCommand {
    static let name = "run-child"

    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Become the command that `interlock run` runs.", shouldDisplay: false)

    @Option(help: ArgumentHelp("The process that holds the lock.", valueName: "process"))
    var parent: Int32

    @Option(help: ArgumentHelp("The program to execute.", valueName: "path"))
    var program: String

    @Flag(help: "Take over the terminal.")
    var foreground = false

    @Option(help: ArgumentHelp("A signal to ignore.", valueName: "signal"))
    var ignoring: [Int32] = []

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The command and its arguments.", valueName: "command"))
    var words: [String] = []

    func run() throws {
        // The parent may have died before the parent-death signal was set.
        guard getppid() == parent else { throw ExitCode.failure }
        if foreground {
            // Without this, SIGTTOU would stop this process, which is still in the background.
            signal(SIGTTOU, SIG_IGN)
            JobTerminal.give(to: getpgrp())
            signal(SIGTTOU, SIG_DFL)
        }
        for number in ignoring { signal(number, SIG_IGN) }
        let errorNumber = ProgramArguments.execute(program, withLast: words.count)
        throw CommandFailure(
            "cannot execute \(words.first ?? program): \(String(cString: strerror(errorNumber)))",
            errorNumber == ENOENT ? .notFound : .notExecutable)
    }
}
