import Dispatch
import FoundationEssentials
import Glibc
import Interlock
import InterlockClient
import InterlockCommandLine
import InterlockCore
import Subprocess

/// Keeps the lease that a command runs under, passes signals on to the command, and ends it when the lease is lost.
struct Supervision {
    enum End: Sendable {
        /// The command ended by itself, and the lease was held as far as is known.
        /// - Parameter deadline: when the lease ends.
        case ended(TerminationStatus, deadline: Instant)
        /// The lease was lost, and nothing of the command runs any more.
        /// - Parameter stoppedBy: the last signal that was to end the command, and was passed on to it.
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

    /// How often to check whether the rest of a command's group has ended: there is no notification for that.
    private static let lookInterval: Int64 = 50

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

    /// Returns when the command has ended, and after a loss also the rest of its process group.
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
                // One that is stopped has to go on to end.
                group.send(SIGCONT)
            case .kill:
                reportLoss()
                group.send(SIGKILL)
            case .wait(let until):
                if status == nil {
                    handle(await mailbox.next(by: until))
                } else if watch.isEnding, group.hasLivingMembers {
                    handle(await mailbox.next(by: min(until, now.advanced(byMilliseconds: Self.lookInterval))))
                } else {
                    return .lost(stoppedBy: stoppedBy)
                }
            }
        }
    }

    private mutating func handle(_ event: Mailbox.Event) {
        switch event {
        case .renewed(.renewed, let sentAt): watch.renewed(sentAt: sentAt)
        case .renewed(.lost, let sentAt): watch.lost(sentAt: sentAt, now: clock.now())
        case .renewed(.unanswered, let sentAt): watch.unanswered(sentAt: sentAt, now: clock.now())
        case .signal(SIGCONT): continueCommand()
        case .signal(let signal):
            if RunSignals.isEnding(signal) { stoppedBy = signal }
            group.send(signal)
        case .commandStopped:
            // Without the terminal another process stopped the command; its lease is kept meanwhile.
            guard JobTerminal.isHeld(by: group.id) else { return }
            JobTerminal.stopJob()
            continueCommand()
        case .commandEnded(let status): self.status = status
        case .acquired, .released, .alarm: break
        }
    }

    /// Lets a stopped command go on, unless its lease is over: time may have passed since it was stopped.
    private func continueCommand() {
        guard watch.isHeld(at: clock.now()) else { return }
        if JobTerminal.isOurs { JobTerminal.give(to: group.id) }
        group.send(SIGCONT)
    }

    private func renew(sentAt: Instant) {
        Task { [lease, ttl, client, mailbox] in
            let outcome: RenewalOutcome
            do {
                outcome = try await client.locks.renew(lease.name, token: lease.token, ttl: ttl) == nil ? .lost : .renewed
            } catch {
                // Whatever it is, the lease may be held, until its deadline.
                outcome = .unanswered
            }
            mailbox.post(.renewed(outcome, sentAt: sentAt))
        }
    }

    private mutating func reportLoss() {
        guard !hasReportedLoss else { return }
        hasReportedLoss = true
        Terminal.tell("interlock: the lease of \(lease.name) is lost: ending the command")
    }
}

/// Waits for the stops and the end of a command, on a thread of its own: only `waitid` reports them.
///
/// Other children are orphans whose parents ended before them: the first process of a container becomes their parent, and must
/// reap them.
enum CommandWait {
    /// Posts every stop of the process and finally its end. The process is left to be reaped.
    static func start(_ process: pid_t, postingTo mailbox: Mailbox) {
        DispatchQueue(label: "interlock.run").async {
            while Self.isStopped(process, mailbox) {}
        }
    }

    /// Waits until the process stops or ends, and posts it, or until an orphan does, and reaps it.
    /// - Returns: whether more is to come.
    private static func isStopped(_ process: pid_t, _ mailbox: Mailbox) -> Bool {
        var information = siginfo_t()
        while waitid(P_ALL, 0, &information, WEXITED | WSTOPPED | WNOWAIT) != 0 {
            guard errno == EINTR else {
                // The process is not reaped before its end was posted; if it was, it has ended.
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
            // Take this one away, or it would be told again. It is gone already when the process was continued.
            _ = waitid(P_PID, id_t(process), &information, WSTOPPED | WNOHANG)
            mailbox.post(.commandStopped)
            return true
        }
    }
}

/// A command and all its descendants that did not leave its process group. The group has its leader's process id, which is
/// nobody else's until the leader is reaped.
struct ProcessGroup: Sendable {
    let id: pid_t

    func send(_ signal: Int32) {
        // Fails only when no process is left, which is fine.
        _ = kill(-id, signal)
    }

    /// Whether a process of the group still runs; zombies do not count. O(n) in the processes of
    /// this machine.
    var hasLivingMembers: Bool {
        // Without /proc no process can be seen.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.contains { name in
            guard pid_t(name) != nil, let (group, state) = Self.status(ofProcess: name) else { return false }
            return group == id && state != "Z" && state != "X"
        }
    }

    /// `nil` when there is no such process any more.
    private static func status(ofProcess process: String) -> (group: pid_t, state: Substring)? {
        guard let file = fopen("/proc/\(process)/stat", "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Behind the name, which stands in brackets and may itself hold some: state, parent, group.
        guard let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[end...].dropFirst(2).split(separator: " ")
        guard fields.count > 2, let group = pid_t(fields[2]) else { return nil }
        return (group, fields[0])
    }
}
