import Glibc

/// The terminal on standard input, if there is one. Only the foreground process group may read from the terminal and
/// receives the signals of Ctrl-C and Ctrl-Z.
enum JobTerminal {
    /// Whether standard input is a terminal and this process's group is in the foreground.
    static var isInForeground: Bool {
        isatty(STDIN_FILENO) == 1 && isHeld(by: getpgrp())
    }

    /// Returns whether a process group is in the foreground.
    static func isHeld(by group: pid_t) -> Bool {
        tcgetpgrp(STDIN_FILENO) == group
    }

    /// Moves a process group to the foreground. Ignores the only possible failure, a terminal that no longer belongs to
    /// this session.
    static func give(to group: pid_t) {
        _ = tcsetpgrp(STDIN_FILENO, group)
    }

    /// Runs `body` while this process ignores the terminal's stop signals. The process must keep renewing the lease
    /// while the command runs, and must be able to take back the terminal from the background.
    static func withoutStops<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        let outputHandler = signal(SIGTTOU, SIG_IGN)
        let stopHandler = signal(SIGTSTP, SIG_IGN)
        defer {
            signal(SIGTTOU, outputHandler)
            signal(SIGTSTP, stopHandler)
        }
        return try await body()
    }

    /// Stops this process and the rest of its group, as Ctrl-Z would if the command were not in the foreground. Returns
    /// when the group is continued, or immediately if there is no shell that could continue it.
    static func stopJob() {
        give(to: getpgrp())
        // This process still ignores SIGTSTP, so the call stops only the rest of the group.
        _ = kill(0, SIGTSTP)
        signal(SIGTSTP, SIG_DFL)
        // `raise` signals this thread, so that the stop takes effect before the next line.
        var stopSignals = sigset_t()
        sigemptyset(&stopSignals)
        sigaddset(&stopSignals, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &stopSignals, nil)
        raise(SIGTSTP)
        signal(SIGTSTP, SIG_IGN)
    }
}
