import Glibc
import Interlock
import InterlockCore
import Subprocess

/// Keeps the lease that a command runs under, passes signals on to the command, and ends it when the lease is lost.
struct Supervision {
    enum End: Sendable {
        /// The command ended by itself, and the lease was held as far as is known.
        case ended(TerminationStatus)
        /// The lease was lost, and nothing of the command runs any more.
        /// - Parameter stoppedBy: the last signal that was to end the command, and was passed on to it.
        case lost(stoppedBy: Int32?)
    }

    let group: ProcessGroup
    let renewal: RenewLock
    let connection: SidecarConnection
    let mailbox: Mailbox
    var watch: LeaseWatch

    private let clock = TimeSource.system
    private var status: TerminationStatus?
    private var stoppedBy: Int32?
    private var hasToldOfLoss = false

    /// How often to look whether the rest of a command's group has ended: nobody tells.
    private static let lookInterval: Int64 = 50

    init(
        process: pid_t, renewal: RenewLock, connection: SidecarConnection, mailbox: Mailbox, watch: LeaseWatch
    ) {
        group = ProcessGroup(id: process)
        self.renewal = renewal
        self.connection = connection
        self.mailbox = mailbox
        self.watch = watch
    }

    /// Returns when the command has ended, and after a loss also everybody else in its process group.
    mutating func run() async -> End {
        CommandWait.start(group.id, postingTo: mailbox)
        defer { if JobTerminal.isHeld(by: group.id) { JobTerminal.hand(to: getpgrp()) } }
        while true {
            if let status, !watch.isLost { return .ended(status) }
            let now = clock.now()
            switch watch.next(now: now) {
            case .renew(let sentAt):
                renew(sentAt: sentAt)
            case .terminate:
                tellOfLoss()
                group.send(SIGTERM)
                // One that is stopped has to go on to end.
                group.send(SIGCONT)
            case .kill:
                tellOfLoss()
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
            // Without the terminal it was somebody else who stopped the command, and its lease is kept meanwhile.
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
        if JobTerminal.isOurs { JobTerminal.hand(to: group.id) }
        group.send(SIGCONT)
    }

    private func renew(sentAt: Instant) {
        Task { [renewal, connection, mailbox] in
            let outcome: RenewalOutcome
            do {
                outcome = try await connection.send(renewal) == nil ? .lost : .renewed
            } catch {
                // Whatever it is, the lease may be held, until its deadline.
                outcome = .unanswered
            }
            mailbox.post(.renewed(outcome, sentAt: sentAt))
        }
    }

    private mutating func tellOfLoss() {
        guard !hasToldOfLoss else { return }
        hasToldOfLoss = true
        Terminal.tell("interlock: the lease of \(renewal.name) is lost: the command is ended")
    }
}
