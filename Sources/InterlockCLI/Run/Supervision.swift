import Dispatch
import FoundationEssentials
import Glibc
import Interlock
import InterlockClient
import InterlockCommandLine
import InterlockCore
import Subprocess

/// Renews the lease that a command runs under, forwards signals to the command, and ends it when the lease is lost.
struct Supervision {
    enum End: Sendable {
        /// The command ended while its lease was held, as far as known.
        /// - Parameter deadline: the end of the lease.
        case ended(TerminationStatus, deadline: Instant)
        /// The lease was lost, and no process of the command is left.
        /// - Parameter stoppedBy: the last forwarded signal that asked the command to end; `nil` if none did.
        case lost(stoppedBy: Int32?)
    }

    let group: ProcessGroup
    let lease: Lease
    let ttl: Duration
    let client: SidecarClient
    let mailbox: Mailbox
    var watch: LeaseWatch

    private let clock = TimeSource.system
    private var status: TerminationStatus?
    private var stoppedBy: Int32?
    private var hasReportedLoss = false

    /// The interval between checks for the end of the command's process group, which the kernel does not report.
    private static let pollIntervalMilliseconds: Int64 = 50

    init(
        process: pid_t, lease: Lease, ttl: Duration, client: SidecarClient, mailbox: Mailbox, watch: LeaseWatch
    ) {
        group = ProcessGroup(id: process)
        self.lease = lease
        self.ttl = ttl
        self.client = client
        self.mailbox = mailbox
        self.watch = watch
    }

    /// Supervises the command until it has ended and, after a loss, until the rest of its process group has ended too.
    mutating func run() async -> End {
        CommandWait.start(group.id, postingTo: mailbox)
        defer { if JobTerminal.isHeld(by: group.id) { JobTerminal.give(to: getpgrp()) } }
        while true {
            if let status, let deadline = watch.deadline { return .ended(status, deadline: deadline) }
            let now = clock.now()
            switch watch.next(now: now) {
            case .renew(let sentAt):
                renew(sentAt: sentAt)
            case .terminate:
                reportLoss()
                group.send(SIGTERM)
                // A stopped process handles SIGTERM only after it continues.
                group.send(SIGCONT)
            case .kill:
                reportLoss()
                group.send(SIGKILL)
            case .wait(let until):
                if status == nil {
                    handle(await mailbox.next(by: until))
                } else if watch.isEnding, group.hasLivingMembers {
                    let nextPoll = now.advanced(byMilliseconds: Self.pollIntervalMilliseconds)
                    handle(await mailbox.next(by: min(until, nextPoll)))
                } else {
                    return .lost(stoppedBy: stoppedBy)
                }
            }
        }
    }

    private mutating func handle(_ event: Mailbox.Event) {
        switch event {
        case .renewed(.renewed, let sentAt): watch.renewalSucceeded(sentAt: sentAt)
        case .renewed(.lost, let sentAt): watch.renewalRejected(sentAt: sentAt, now: clock.now())
        case .renewed(.unanswered, let sentAt): watch.renewalUnanswered(sentAt: sentAt, now: clock.now())
        case .signal(SIGCONT): continueCommand()
        case .signal(let signal):
            if RunSignals.isEnding(signal) { stoppedBy = signal }
            group.send(signal)
        case .commandStopped:
            // A stop in the background came from another process. The command stays stopped, and its lease is renewed.
            guard JobTerminal.isHeld(by: group.id) else { return }
            JobTerminal.stopJob()
            continueCommand()
        case .commandEnded(let status): self.status = status
        case .acquired, .released, .alarm: break
        }
    }

    /// Continues a stopped command unless its lease has ended meanwhile.
    private func continueCommand() {
        guard watch.isHeld(at: clock.now()) else { return }
        if JobTerminal.isInForeground { JobTerminal.give(to: group.id) }
        group.send(SIGCONT)
    }

    private func renew(sentAt: Instant) {
        Task { [lease, ttl, client, mailbox] in
            let outcome: RenewalOutcome
            do {
                outcome = try await client.locks.renew(lease.name, token: lease.token, ttl: ttl) == nil ? .lost : .renewed
            } catch {
                // No error proves that the lease is lost, so it counts as held until its deadline.
                outcome = .unanswered
            }
            mailbox.post(.renewed(outcome, sentAt: sentAt))
        }
    }

    private mutating func reportLoss() {
        guard !hasReportedLoss else { return }
        hasReportedLoss = true
        Terminal.report("interlock: the lease of \(lease.name) is lost; ending the command")
    }
}

/// Waits for the command to stop or end, on a dedicated thread, because only `waitid` reports stops.
///
/// Also reaps orphans: if this process is the first of a container, the kernel makes it the parent of processes whose
/// parents have ended.
enum CommandWait {
    /// Posts every stop of the process and finally its end. Does not reap the process.
    static func start(_ process: pid_t, postingTo mailbox: Mailbox) {
        DispatchQueue(label: "interlock.run").async {
            while Self.awaitEvent(of: process, postingTo: mailbox) {}
        }
    }

    /// Waits until a child stops or ends. Posts the event if the child is `process`. Any other child is an orphan,
    /// which is reaped if it has ended.
    /// - Returns: whether further events may follow.
    private static func awaitEvent(of process: pid_t, postingTo mailbox: Mailbox) -> Bool {
        var information = siginfo_t()
        while waitid(P_ALL, 0, &information, WEXITED | WSTOPPED | WNOWAIT) != 0 {
            guard errno == EINTR else {
                // The process is reaped only after its end is posted, so a child exists and this call should not fail.
                // If it fails, there is no process to wait for.
                mailbox.post(.commandEnded(.exited(EXIT_FAILURE)))
                return false
            }
        }
        let child = information._sifields._sigchld.si_pid
        guard child == process else {
            _ = waitid(P_PID, id_t(child), &information, WEXITED | WSTOPPED | WNOHANG)
            return true
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
            // Consumes this stop, or `waitid` would report it again. The kernel has already discarded it if the process
            // was continued.
            _ = waitid(P_PID, id_t(process), &information, WSTOPPED | WNOHANG)
            mailbox.post(.commandStopped)
            return true
        }
    }
}

/// A command and all its descendants that stayed in its process group. The group's ID is the process ID of its leader,
/// which is not reused until the leader is reaped.
struct ProcessGroup: Sendable {
    let id: pid_t

    func send(_ signal: Int32) {
        // The call fails only if the group has no process, and then there is nothing to signal.
        _ = kill(-id, signal)
    }

    /// Whether the group has a process other than zombies. O(n) in the number of processes on this machine.
    var hasLivingMembers: Bool {
        // The group counts as ended if /proc cannot be read.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.contains { name in
            guard pid_t(name) != nil, let (group, state) = Self.status(ofProcess: name) else { return false }
            return group == id && state != "Z" && state != "X"
        }
    }

    /// Returns the group and state of a process; `nil` if there is no such process.
    private static func status(ofProcess process: String) -> (group: pid_t, state: Substring)? {
        guard let file = fopen("/proc/\(process)/stat", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let statusLine = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The fields after the name are state, parent and group. The name is in parentheses and may contain
        // parentheses.
        guard let nameEnd = statusLine.lastIndex(of: ")") else { return nil }
        let fields = statusLine[nameEnd...].dropFirst(2).split(separator: " ")
        guard fields.count > 2, let group = pid_t(fields[2]) else { return nil }
        return (group, fields[0])
    }
}
