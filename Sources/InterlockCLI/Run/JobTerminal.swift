import Glibc

/// The terminal on standard input, if there is one. Only its foreground process group may read from it and receives the
/// signals of Ctrl-C and Ctrl-Z.
enum JobTerminal {
    /// Whether standard input is a terminal and this process's group is in the foreground.
    static var isInForeground: Bool {
        isatty(STDIN_FILENO) == 1 && isHeld(by: getpgrp())
    }

    static func isHeld(by group: pid_t) -> Bool {
        tcgetpgrp(STDIN_FILENO) == group
    }

    /// Moves a process group to the foreground. The call fails only if the terminal no longer belongs to this session,
    /// which is harmless.
    static func give(to group: pid_t) {
        _ = tcsetpgrp(STDIN_FILENO, group)
    }

    /// Runs `body` while this process ignores the terminal's stop signals. The process must keep renewing the lease
    /// while the command runs, and must be able to take back the terminal from the background.
    static func withoutStops<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        let handOver = signal(SIGTTOU, SIG_IGN)
        let stop = signal(SIGTSTP, SIG_IGN)
        defer {
            signal(SIGTTOU, handOver)
            signal(SIGTSTP, stop)
        }
        return try await body()
    }

    /// Stops this process and the rest of its group, as Ctrl-Z would if the command were not in the foreground. Returns
    /// when the group is continued, or immediately if there is no shell that could continue it.
    static func stopJob() {
        give(to: getpgrp())
        // SIGTSTP is still ignored in this process itself.
        _ = kill(0, SIGTSTP)
        signal(SIGTSTP, SIG_DFL)
        // `raise` signals this thread, so that the stop takes effect before the next line.
        var stop = sigset_t()
        sigemptyset(&stop)
        sigaddset(&stop, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &stop, nil)
        raise(SIGTSTP)
        signal(SIGTSTP, SIG_IGN)
    }
}
