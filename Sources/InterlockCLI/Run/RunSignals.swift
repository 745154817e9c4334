import Glibc
import UnixSignals

/// The signals that `interlock run` forwards to its command.
enum RunSignals {
    private static let forwarded: [UnixSignal] = [
        .sigint, .sigterm, .sighup, .sigquit, .sigusr1, .sigusr2, .sigwinch, .sigcont,
    ]

    /// The signals that ask the command to end and that end the wait for a lock.
    private static let ending: Set<Int32> = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

    static func isEnding(_ signal: Int32) -> Bool { ending.contains(signal) }

    /// Returns the signals that this process inherited as ignored, for example SIGHUP under `nohup`. They stay ignored
    /// in this process and in the command.
    static func ignored() -> [Int32] {
        (Int32(1)...31).filter { number in
            var action = sigaction()
            guard sigaction(number, nil, &action) == 0 else { return false }
            // A handler is a pointer or a small constant: SIG_IGN is 1.
            return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
        }
    }

    /// Starts to post the forwarded signals to the mailbox, except for those in `ignored`.
    static func collect(except ignored: [Int32], in mailbox: Mailbox) async {
        // A process that ignores SIGCHLD is not notified when its children end.
        signal(SIGCHLD, SIG_DFL)
        let signals = await UnixSignalsSequence(trapping: forwarded.filter { !ignored.contains($0.rawValue) })
        Task {
            for await signal in signals { mailbox.post(.signal(signal.rawValue)) }
        }
    }
}
