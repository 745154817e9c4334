import Dispatch
import Glibc
import Subprocess

/// Waits for what becomes of a command, on a thread of its own: the system tells it to nobody else.
enum CommandWait {
    /// Posts every stop of the process and finally its end. The process is left to be reaped.
    static func start(_ process: pid_t, postingTo mailbox: Mailbox) {
        DispatchQueue(label: "interlock.run").async {
            while Self.isStopped(process, mailbox) {}
        }
    }

    /// Waits until the process stops or ends, and posts it.
    /// - Returns: whether more is to come.
    private static func isStopped(_ process: pid_t, _ mailbox: Mailbox) -> Bool {
        var information = siginfo_t()
        while waitid(P_PID, id_t(process), &information, WEXITED | WSTOPPED | WNOWAIT) != 0 {
            guard errno == EINTR else {
                // Nobody reaps the process before its end was posted; if somebody did, it has ended.
                mailbox.post(.commandEnded(.exited(EXIT_FAILURE)))
                return false
            }
        }
        let status = information._sifields._sigchld.si_status
        switch information.si_code {
        case Int32(CLD_EXITED):
            mailbox.post(.commandEnded(.exited(status)))
            return false
        case Int32(CLD_KILLED), Int32(CLD_DUMPED):
            mailbox.post(.commandEnded(.signaled(status)))
            return false
        default:
            // Take this one away, or it would be told again. It is gone already when the process was continued.
            _ = waitid(P_PID, id_t(process), &information, WSTOPPED | WNOHANG)
            mailbox.post(.commandStopped)
            return true
        }
    }
}
