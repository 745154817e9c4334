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

/// The terminal that standard input may be, which one process group at a time has to itself: Ctrl-C and Ctrl-Z go to that
/// group, and only it may read.
enum JobTerminal {
    /// Whether it is a terminal, and this process' group has it.
    static var isOurs: Bool {
        isatty(STDIN_FILENO) == 1 && isHeld(by: getpgrp())
    }

    static func isHeld(by group: pid_t) -> Bool {
        tcgetpgrp(STDIN_FILENO) == group
    }

    /// Fails only when it is not this session's terminal any more, which is fine.
    static func give(to group: pid_t) {
        _ = tcsetpgrp(STDIN_FILENO, group)
    }

    /// Runs `body` in a process that is not stopped by the terminal: it has to go on renewing while its command runs, and to
    /// take the terminal back from where a process is stopped for that.
    static func withoutStops<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        let handOver = signal(SIGTTOU, SIG_IGN)
        let stop = signal(SIGTSTP, SIG_IGN)
        defer {
            signal(SIGTTOU, handOver)
            signal(SIGTSTP, stop)
        }
        return try await body()
    }

    /// Stops this process and the rest of its group as Ctrl-Z would have done, had the command not had the terminal. Returns
    /// when they are continued; at once when there is no shell that would do that.
    static func stopJob() {
        give(to: getpgrp())
        // This process ignores it.
        _ = kill(0, SIGTSTP)
        signal(SIGTSTP, SIG_DFL)
        // To this very thread: nothing here runs on before the stop.
        var stop = sigset_t()
        sigemptyset(&stop)
        sigaddset(&stop, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &stop, nil)
        raise(SIGTSTP)
        signal(SIGTSTP, SIG_IGN)
    }
}
