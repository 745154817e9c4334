import ArgumentParser
import Interlock
import InterlockClient
import InterlockCommandLine
import InterlockCore
import InterlockSidecar
import Subprocess

/// Carries out an `interlock run`: acquires the lock, runs the command under it, and releases the lock.
struct RunSession {
    /// How one attempt to hold the lock ended.
    enum Term: Sendable {
        /// The command ended by itself.
        case finished(ExitCode)
        /// The lease was lost while the command ran.
        /// - Parameter stoppedBy: the signal that was to end the command, if one came.
        case lost(stoppedBy: Int32?)
        /// A signal came before the lock was acquired.
        case stopped(by: Int32)
        /// Another holds the lock.
        case held
    }

    /// The outcome of the requests for a lease.
    private enum Acquisition {
        case granted(SidecarLease, sentAt: Instant)
        case stopped(by: Int32)
        case held
    }

    private let plan: RunPlan
    private let command: GuardedCommand
    private let mailbox: Mailbox
    private let clock = TimeSource.system

    /// How long releasing the lock may take, in milliseconds. Otherwise it expires.
    private static let releaseTimeout: Int64 = 3000

    init(plan: RunPlan, command: GuardedCommand, mailbox: Mailbox) {
        self.plan = plan
        self.command = command
        self.mailbox = mailbox
    }

    /// What is asked for, for messages.
    private static func purpose(_ lock: String) -> String { "lock acquire \(lock)" }

    /// - Returns: the code to exit with, when there is nothing more to say.
    /// - Throws: `Failure`.
    func run() async throws -> ExitCode {
        while true {
            switch try await term() {
            case .finished(let code): return code
            case .stopped(let signal): return .ended(bySignal: signal)
            case .held:
                if plan.heldExitCode != 0 { Terminal.tell("interlock: \(refusal)") }
                return ExitCode(plan.heldExitCode)
            case .lost(let signal):
                guard plan.purpose == .lead else { return ExitCode(.leaseLost) }
                if let signal { return .ended(bySignal: signal) }
                Terminal.tell("interlock: \(plan.name) is no longer led from here; trying to lead again")
            }
        }
    }

    /// One lease: from the first request for it until it is given back or lost.
    private func term() async throws -> Term {
        var candidacy = Candidacy(plan.purpose, ttl: plan.ttl, now: clock.now())
        let token = plan.drawToken()
        while true {
            do {
                let term = try await plan.sidecar.withClient(Self.purpose(plan.name)) { client in
                    try await self.term(token: token, candidacy: &candidacy, over: client)
                }
                // The request may have been granted at the moment it was given up.
                switch term {
                case .stopped, .held: await withdraw(token, of: candidacy)
                case .finished, .lost: break
                }
                return term
            } catch let failure as Failure where candidacy.isAway(failure.status) {
                guard let next = candidacy.failed(now: clock.now()) else {
                    await withdraw(token, of: candidacy)
                    throw failure
                }
                if candidacy.failures == 1 { Terminal.tell("interlock: \(failure); retrying") }
                if let signal = await endingSignal(until: next) {
                    await withdraw(token, of: candidacy)
                    return .stopped(by: signal)
                }
            } catch let failure as Failure where Candidacy.refusals.contains(failure.status) {
                await withdraw(token, of: candidacy)
                throw failure
            }
        }
    }

    /// Releases what may have been granted by a request without an answer.
    private func withdraw(_ token: String, of candidacy: Candidacy) async {
        if candidacy.hasConnected { _ = await release(token) }
    }

    private func term(
        token: String, candidacy: inout Candidacy, over client: SidecarClient
    ) async throws -> Term {
        switch try await acquire(token: token, candidacy: &candidacy, over: client) {
        case .stopped(let signal): return .stopped(by: signal)
        case .held: return .held
        case .granted(let grant, let sentAt): return try await serve(grant, sentAt: sentAt, over: client)
        }
    }

    private func acquire(
        token: String, candidacy: inout Candidacy, over client: SidecarClient
    ) async throws -> Acquisition {
        var request = candidacy.connected(now: clock.now())
        while true {
            if let signal = await endingSignal(until: request.at) { return .stopped(by: signal) }
            let sentAt = clock.now()
            send(request, token: token, sentAt: sentAt, over: client)
            var answer: Result<SidecarLease?, Failure>?
            while answer == nil {
                if candidacy.isNoticeDue(now: clock.now()) { Terminal.tell("interlock: waiting for the lock \(plan.name)") }
                switch await mailbox.next(by: candidacy.noticeAt) {
                case .acquired(let result, sentAt): answer = result
                case .signal(let signal) where RunSignals.isEnding(signal): return .stopped(by: signal)
                default: break
                }
            }
            let grant = try answer?.get()
            let action = candidacy.answered(isGranted: grant != nil, request: request, sentAt: sentAt, now: clock.now())
            switch (action, grant) {
            case (.ask(let next), _): request = next
            case (.start, let grant?): return .granted(grant, sentAt: sentAt)
            case (.start, nil), (.giveUp, _): return .held
            }
        }
    }

    /// Asks for the lease; the answer goes into the mailbox. Closing the client withdraws the request.
    private func send(
        _ request: Candidacy.Request, token: String, sentAt: Instant, over client: SidecarClient
    ) {
        Task { [plan, mailbox] in
            do {
                let lease = try await client.acquireLock(
                    plan.name, ttl: plan.ttl, wait: .milliseconds(request.wait), mode: plan.mode, owner: token,
                    label: plan.label)
                mailbox.post(.acquired(.success(lease), sentAt: sentAt))
            } catch let error as SidecarClientError {
                let failure = Failure(error, asking: Self.purpose(plan.name), at: client.configuration.address)
                mailbox.post(.acquired(.failure(failure), sentAt: sentAt))
            } catch {
                mailbox.post(.acquired(.failure(Failure("\(error)", .unavailable)), sentAt: sentAt))
            }
        }
    }

    /// Runs the command under the lease, then releases it.
    private func serve(_ grant: SidecarLease, sentAt: Instant, over client: SidecarClient) async throws -> Term {
        if plan.purpose == .lead { Terminal.tell("interlock: leading \(plan.name), fence \(grant.fence)") }
        let watch = LeaseWatch(ttl: plan.ttl.wholeMilliseconds, sentAt: sentAt, isStrict: plan.isStrict)
        let end: Supervision.End
        do {
            end = try await JobTerminal.withoutStops {
                try await command.run(environment: [
                    "INTERLOCK_LOCK": plan.name, "INTERLOCK_TOKEN": grant.token, "INTERLOCK_FENCE": "\(grant.fence)",
                ]) { process in
                    var supervision = Supervision(
                        process: process, lease: grant, ttl: plan.ttl, client: client, mailbox: mailbox, watch: watch)
                    return await supervision.run()
                }
            }
        } catch {
            _ = await release(grant.token, over: client)
            throw error
        }
        switch end {
        case .lost(let signal):
            return .lost(stoppedBy: signal)
        case .ended(let status):
            if status.isSuccess, let rest = plan.atLeast.milliseconds(after: sentAt, now: clock.now()) {
                return .finished(
                    await keep(grant.token, forMilliseconds: rest, over: client) ? ExitCode(status) : ExitCode(.leaseLost))
            }
            guard await release(grant.token, over: client) == false else { return .finished(ExitCode(status)) }
            Terminal.tell("interlock: the lease of \(plan.name) was lost before the command ended")
            return .finished(ExitCode(.leaseLost))
        }
    }

    /// Lets the lease expire by itself, this long from now.
    /// - Returns: whether it was held.
    private func keep(_ token: String, forMilliseconds rest: Int64, over client: SidecarClient) async -> Bool {
        do {
            if try await client.renewLock(plan.name, token: token, ttl: .milliseconds(rest)) != nil { return true }
            Terminal.tell("interlock: the lease of \(plan.name) was lost before the command ended")
            return false
        } catch {
            Terminal.tell("interlock: the lease of \(plan.name) may expire before --at-least is over: \(error)")
            return true
        }
    }

    /// Releases the lease, over another connection when this one is lost.
    /// - Returns: whether it was held; `nil`: not known.
    private func release(_ token: String, over client: SidecarClient) async -> Bool? {
        let name = plan.name
        if let wasHeld = await settled({ try await client.releaseLock(name, token: token) }) { return wasHeld }
        // The first may have been carried out without an answer, so the answer to the second says nothing.
        _ = await release(token)
        return nil
    }

    private func release(_ token: String) async -> Bool? {
        let (name, sidecar) = (plan.name, plan.sidecar)
        return await settled {
            try await sidecar.withClient("lock release \(name)") { try await $0.releaseLock(name, token: token) }
        }
    }

    /// The answer to a release; `nil`: none, or none in time.
    private func settled(_ release: @escaping @Sendable () async throws -> Bool) async -> Bool? {
        let deadline = clock.now().advanced(byMilliseconds: Self.releaseTimeout)
        Task { [mailbox] in
            // A lease that cannot be released expires.
            mailbox.post(.released(wasHeld: try? await release()))
        }
        while clock.now() < deadline {
            if case .released(let wasHeld) = await mailbox.next(by: deadline) { return wasHeld }
        }
        return nil
    }

    /// Waits until then, or for a signal to end.
    private func endingSignal(until time: Instant) async -> Int32? {
        while clock.now() < time {
            if case .signal(let signal) = await mailbox.next(by: time), RunSignals.isEnding(signal) { return signal }
        }
        return nil
    }

    /// Why the command did not run.
    private var refusal: String {
        let look = "see `interlock lock show \(plan.name)`"
        guard case .once(let wait) = plan.purpose, wait > .zero else {
            return "the lock \(plan.name) is held by another: wait for it with --wait, or \(look)"
        }
        return "the lock \(plan.name) is held by another, and was during the \(DurationText.shortest(wait)) waited for it: "
            + "wait longer with --wait, or \(look)"
    }
}

extension Duration {
    /// What is left of this long after `start`, in milliseconds; `nil`: nothing is.
    fileprivate func milliseconds(after start: Instant, now: Instant) -> Int64? {
        let rest = start.advanced(byMilliseconds: wholeMilliseconds).millisecondsRoundedUp(since: now)
        return rest > 0 ? rest : nil
    }
}
