import Glibc

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
