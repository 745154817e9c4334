import ArgumentParser
import Glibc
import InterlockCommandLine

/// What the process that `interlock run` starts is for a moment, before it becomes the command: it gets ready what only the
/// process itself can.
struct RunChild: ParsableCommand {
    static let name = "run-child"

    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Become the command that `interlock run` runs.", shouldDisplay: false)

    @Option(help: ArgumentHelp("The process that holds the lock.", valueName: "process"))
    var parent: Int32

    @Option(help: ArgumentHelp("What to execute.", valueName: "path"))
    var program: String

    @Flag(help: "Take the terminal.")
    var foreground = false

    @Option(help: ArgumentHelp("A signal to ignore.", valueName: "signal"))
    var ignoring: [Int32] = []

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The command's words.", valueName: "command"))
    var words: [String] = []

    func run() throws {
        // From the moment this process asked to die with its parent it would; this is about the moments before.
        guard getppid() == parent else { throw ExitCode.failure }
        if foreground {
            // A process that does not have the terminal is stopped for this, unless it ignores that.
            signal(SIGTTOU, SIG_IGN)
            JobTerminal.give(to: getpgrp())
            signal(SIGTTOU, SIG_DFL)
        }
        for number in ignoring { signal(number, SIG_IGN) }
        // The thread that started this process blocks most signals, and what is executed inherits that.
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
        // The words as they came, which need not be UTF-8.
        execv(program, ProgramArguments.pointer(toLast: words.count))
        let reason = errno
        throw Failure(
            "cannot execute \(words.first ?? program): \(String(cString: strerror(reason)))",
            reason == ENOENT ? .notFound : .notExecutable)
    }
}
