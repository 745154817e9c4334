import ArgumentParser
import Interlock
import InterlockClient
import InterlockCommandLine
import InterlockCore
import Subprocess

/// Performs an `interlock run`: acquires the lock, runs the command under it, and releases the lock.
struct RunSession {
    /// The result of a term: one attempt to acquire the lock and run the command.
    enum TermResult: Sendable {
        /// The command ended, and the run ends with this exit code.
        case finished(ExitCode)
        /// The lease was lost while the command ran.
        /// - Parameter stoppedBy: the last forwarded signal that asked the command to end; `nil` if none did.
        case lost(stoppedBy: Int32?)
        /// A signal arrived before the lock was acquired.
        case stopped(by: Int32)
        /// Another client holds the lock. The value describes the lock; `nil` if unknown.
        case held(LockInformation?)
    }

    /// The outcome of the requests for a lease.
    private enum Acquisition {
        case granted(Lease, sentAt: Instant)
        case stopped(by: Int32)
        case held
    }

    private let plan: RunPlan
    private let command: GuardedCommand
    private let mailbox: Mailbox
    private let clock = TimeSource.system

    /// The time limit for releasing the lock. After that, the run leaves the lease to expire.
    private static let releaseTimeoutMilliseconds: Int64 = 3000
    /// The pause before another attempt to renew the lease for `--at-least`.
    private static let renewalPauseMilliseconds: Int64 = 250

    init(plan: RunPlan, command: GuardedCommand, mailbox: Mailbox) {
        self.plan = plan
        self.command = command
        self.mailbox = mailbox
    }

    /// Returns the name of the acquire request for messages.
    private static func requestName(_ lock: String) -> String { "lock acquire \(lock)" }

    /// Runs the command under the lock, repeatedly with `--lead`.
    /// - Returns: the exit code. The messages that belong to it are already printed.
    /// - Throws: `CommandFailure` if the lock cannot be requested or the command cannot be started.
    func run() async throws -> ExitCode {
        while true {
            switch try await term() {
            case .finished(let code): return code
            case .stopped(let signal): return .ended(bySignal: signal)
            case .held(let lock):
                if plan.heldExitCode != 0 { Terminal.report("interlock: \(refusal(lock))") }
                return ExitCode(plan.heldExitCode)
            case .lost(let signal):
                guard plan.purpose == .lead else { return ExitCode(.leaseLost) }
                if let signal { return .ended(bySignal: signal) }
                Terminal.report("interlock: no longer the leader of \(plan.name); trying again")
            }
        }
    }

    /// Runs one term, from the first request for a lease until the lease is released or lost.
    private func term() async throws -> TermResult {
        var candidacy = Candidacy(plan.purpose, ttl: plan.ttl, now: clock.now())
        let token = plan.drawToken()
        while true {
            do {
                let term = try await plan.sidecar.withClient(Self.requestName(plan.name)) { client in
                    try await self.term(token: token, candidacy: &candidacy, over: client)
                }
                // The sidecar may have granted the request just before the run abandoned it.
                switch term {
                case .stopped, .held: await withdraw(token, of: candidacy)
                case .finished, .lost: break
                }
                return term
            } catch let failure as CommandFailure where candidacy.isUnreachable(failure.status) {
                guard let retryTime = candidacy.attemptFailed(now: clock.now()) else {
                    await withdraw(token, of: candidacy)
                    throw failure
                }
                if candidacy.failureCount == 1 { Terminal.report("interlock: \(failure); retrying") }
                if let signal = await endingSignal(until: retryTime) {
                    await withdraw(token, of: candidacy)
                    return .stopped(by: signal)
                }
            } catch let failure as CommandFailure where Candidacy.refusals.contains(failure.status) {
                await withdraw(token, of: candidacy)
                throw failure
            }
        }
    }

    /// Releases a lease that an unanswered request may have acquired.
    private func withdraw(_ token: String, of candidacy: Candidacy) async {
        if candidacy.hasConnected { _ = await release(token) }
    }

    private func term(
        token: String, candidacy: inout Candidacy, over client: SidecarClient
    ) async throws -> TermResult {
        // The status is requested first, so that the answer has arrived when the lock is granted. A separate task
        // awaits it, so that this one can handle signals.
        let notice = Task { await RedisNotice.text(from: client) }
        try await checkAtLeast(over: client)
        switch try await acquire(token: token, candidacy: &candidacy, over: client) {
        case .stopped(let signal): return .stopped(by: signal)
        case .held: return .held(try? await client.locks.information(about: plan.name))
        case .granted(let grant, let sentAt):
            if let notice = await notice.value { Terminal.report("interlock: warning: \(notice)") }
            return try await runCommand(grant, sentAt: sentAt, over: client)
        }
    }

    private func acquire(
        token: String, candidacy: inout Candidacy, over client: SidecarClient
    ) async throws -> Acquisition {
        var request = candidacy.sidecarConnected(now: clock.now())
        while true {
            if let signal = await endingSignal(until: request.at) { return .stopped(by: signal) }
            let sentAt = clock.now()
            send(request, token: token, sentAt: sentAt, over: client)
            var reply: Result<Lease?, CommandFailure>?
            while reply == nil {
                if candidacy.takeDueNotice(now: clock.now()) { Terminal.report("interlock: waiting for the lock \(plan.name)") }
                switch await mailbox.next(by: candidacy.noticeAt) {
                case .acquired(let result, sentAt): reply = result
                case .signal(let signal) where RunSignals.isEnding(signal): return .stopped(by: signal)
                default: break
                }
            }
            let grant = try reply?.get()
            let action = candidacy.replyReceived(
                isGranted: grant != nil, request: request, sentAt: sentAt, now: clock.now())
            switch (action, grant) {
            case (.request(let next), _): request = next
            case (.start, let grant?): return .granted(grant, sentAt: sentAt)
            case (.start, nil), (.giveUp, _): return .held
            }
        }
    }

    /// Checks that the sidecar allows a lease of `--at-least`. Renews a lease that does not exist, because every
    /// version of the sidecar checks the TTL first.
    /// - Throws: `CommandFailure` if the sidecar does not allow that TTL.
    private func checkAtLeast(over client: SidecarClient) async throws {
        guard plan.minimumHold > plan.ttl else { return }
        do {
            _ = try await client.locks.renew(plan.name, token: plan.drawToken(), ttl: plan.minimumHold)
        } catch let error as InterlockError where error.code == .invalid {
            throw CommandFailure(
                "--at-least \(DurationText.shortest(plan.minimumHold)) is longer than the sidecar at \(client.configuration.address) "
                    + "allows (\(error.message)); raise its locks.max_ttl, or lower --at-least. Nothing was run",
                .invalid)
        }
    }

    /// Requests the lease and posts the answer to the mailbox. Closing the client withdraws the request.
    private func send(
        _ request: Candidacy.Request, token: String, sentAt: Instant, over client: SidecarClient
    ) {
        Task { [plan, mailbox] in
            do {
                let lease = try await client.locks.acquire(
                    plan.name, ttl: plan.ttl, wait: .milliseconds(request.waitMilliseconds), mode: plan.mode,
                    owner: token,
                    label: plan.label)
                mailbox.post(.acquired(.success(lease), sentAt: sentAt))
            } catch let error as InterlockError {
                let failure = CommandFailure(error, performing: Self.requestName(plan.name), at: client.configuration.address)
                mailbox.post(.acquired(.failure(failure), sentAt: sentAt))
            } catch {
                mailbox.post(.acquired(.failure(CommandFailure("\(error)", .unavailable)), sentAt: sentAt))
            }
        }
    }

    /// Runs the command under the lease, then releases it.
    private func runCommand(_ grant: Lease, sentAt: Instant, over client: SidecarClient) async throws -> TermResult {
        if plan.purpose == .lead { Terminal.report("interlock: leading \(plan.name), fence \(grant.fence)") }
        let watch = LeaseWatch(ttlMilliseconds: plan.ttl.wholeMilliseconds, sentAt: sentAt, isStrict: plan.isStrict)
        let end: Supervision.End
        do {
            end = try await JobTerminal.withoutStops {
                try await command.run(environment: environment(of: grant)) { process in
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
        case .ended(let status, let deadline):
            let keepUntil = sentAt.advanced(byMilliseconds: plan.minimumHold.wholeMilliseconds)
            if status.isSuccess, clock.now() < keepUntil {
                let isHeld = await renewLease(grant.token, until: keepUntil, leaseEndsAt: deadline, over: client)
                return .finished(isHeld ? ExitCode(status) : ExitCode(.leaseLost))
            }
            guard await release(grant.token, over: client) == false else { return .finished(ExitCode(status)) }
            Terminal.report("interlock: the lease of \(plan.name) was lost before the command ended")
            return .finished(ExitCode(.leaseLost))
        }
    }

    /// Returns the changes to the command's environment; `nil` removes a variable.
    private func environment(of grant: Lease) -> [Environment.Key: String?] {
        var variables: [Environment.Key: String?] = [
            "INTERLOCK_LOCK": plan.name, "INTERLOCK_TOKEN": grant.token, "INTERLOCK_FENCE": "\(grant.fence)",
        ]
        if !plan.passesAPIKey { variables["INTERLOCK_API_KEY"] = .some(nil) }
        return variables
    }

    /// Renews the lease so that it expires at `end`. If the renewal fails, retries until the current lease ends or a
    /// signal arrives.
    /// - Returns: whether the lease was held, as far as known.
    private func renewLease(_ token: String, until end: Instant, leaseEndsAt deadline: Instant, over client: SidecarClient) async
        -> Bool
    {
        var attempt = 0
        while true {
            attempt += 1
            do {
                let remaining = Duration.milliseconds(max(1, end.millisecondsRoundedUp(since: clock.now())))
                // A lost connection may have caused the failure, so each retry uses a new one.
                let isHeld =
                    if attempt == 1 {
                        try await renew(token, for: remaining, over: client)
                    } else {
                        try await plan.sidecar.withClient("lock renew \(plan.name)") {
                            try await renew(token, for: remaining, over: $0)
                        }
                    }
                if isHeld { return true }
                Terminal.report("interlock: the lease of \(plan.name) was lost before the command ended")
                return false
            } catch {
                let retryTime = clock.now().advanced(byMilliseconds: Self.renewalPauseMilliseconds)
                guard retryTime < deadline else {
                    return reportEarlyExpiry(deadline, "\(error)")
                }
                if let signal = await endingSignal(until: retryTime) {
                    return reportEarlyExpiry(deadline, "received signal \(signal)")
                }
            }
        }
    }

    private func renew(_ token: String, for remaining: Duration, over client: SidecarClient) async throws -> Bool {
        do {
            return try await client.locks.renew(plan.name, token: token, ttl: remaining) != nil
        } catch let error as InterlockError where error.code == .invalid && remaining < plan.ttl {
            // The remaining time is below the sidecar's `locks.min_ttl`. The sidecar granted the lock with `--ttl`, so
            // that TTL is within its limits.
            return try await client.locks.renew(plan.name, token: token, ttl: plan.ttl) != nil
        }
    }

    /// Reports that the lock may be free before `--at-least` has passed. Returns `true`, because the lease was held.
    private func reportEarlyExpiry(_ deadline: Instant, _ reason: String) -> Bool {
        let remaining = ReadableText.span(milliseconds: max(0, deadline.millisecondsRoundedUp(since: clock.now())))
        Terminal.report("interlock: the lock \(plan.name) may be free in \(remaining), before --at-least has passed: \(reason)")
        return true
    }

    /// Releases the lease, over another connection if this one is lost.
    /// - Returns: whether the lease was held; `nil` if unknown.
    private func release(_ token: String, over client: SidecarClient) async -> Bool? {
        let name = plan.name
        if let wasHeld = await awaitRelease({ try await client.locks.release(name, token: token) }) { return wasHeld }
        // The first call may have taken effect without an answer, so the answer to the second proves nothing.
        _ = await release(token)
        return nil
    }

    private func release(_ token: String) async -> Bool? {
        let (name, sidecar) = (plan.name, plan.sidecar)
        return await awaitRelease {
            try await sidecar.withClient("lock release \(name)") { try await $0.locks.release(name, token: token) }
        }
    }

    /// Releases the lease within the time limit. Returns whether the lease was held; `nil` if the release fails or gets
    /// no answer.
    private func awaitRelease(_ release: @escaping @Sendable () async throws -> Bool) async -> Bool? {
        let deadline = clock.now().advanced(byMilliseconds: Self.releaseTimeoutMilliseconds)
        Task { [mailbox] in
            // If the release is not possible, the lease expires.
            mailbox.post(.released(wasHeld: try? await release()))
        }
        while clock.now() < deadline {
            if case .released(let wasHeld) = await mailbox.next(by: deadline) { return wasHeld }
        }
        return nil
    }

    /// Waits until `time` or until a signal asks the run to end.
    /// - Returns: the signal; `nil` if none arrived.
    private func endingSignal(until time: Instant) async -> Int32? {
        while clock.now() < time {
            if case .signal(let signal) = await mailbox.next(by: time), RunSignals.isEnding(signal) { return signal }
        }
        return nil
    }

    /// Returns the reason why the command did not run.
    private func refusal(_ lock: LockInformation?) -> String {
        var fact = "the lock \(plan.name) is held"
        if case .once(let wait) = plan.purpose, wait > .zero {
            fact = "after a wait of \(DurationText.shortest(wait)), the lock \(plan.name) is still held"
        }
        return "\(fact) by \(RunHolder.description(lock)); nothing was run"
    }
}

/// The holder of a lock that the command needs.
enum RunHolder {
    /// Describes the holder: `web-1 for another 9m 58s, or longer if renewed`.
    static func description(_ lock: LockInformation?) -> String {
        // The lock may have been released meanwhile.
        guard let lock, lock.isHeld else { return "another client" }
        // The label of a shared lock stands for all its holders, so the first holder's own label is shown instead.
        let name = lock.mode == .exclusive ? lock.label : lock.leases.first?.label
        let others = lock.holders > 1 ? " and \(lock.holders - 1) more" : ""
        let remainingTime = lock.remaining.map {
            " for another \(ReadableText.span(milliseconds: $0.wholeMilliseconds)), or longer if renewed"
        }
        return (name ?? "another client") + others + (remainingTime ?? "")
    }
}

/// The warning of `interlock run` about a Redis that other hosts may not share. The same job could then run on two
/// hosts concurrently.
enum RedisNotice {
    /// Returns the warning; `nil` if other hosts share the Redis, or if the sidecar does not report its Redis or does
    /// not answer.
    static func text(from client: SidecarClient) async -> String? {
        guard let status = try? await client.status(), let scope = status.redis.scope, scope != .network else {
            return nil
        }
        // A fleet with other hosts shares this Redis although its address is a loopback address: the address may be
        // that of a local proxy, or the other hosts use another address.
        if scope == .loopback, let fleet = try? await client.fleet(), fleet.contains(where: { $0.host != status.host }) {
            return nil
        }
        let reason =
            scope == .host
            ? "does not exclude other hosts, because the sidecar uses a private Redis"
            : "may not exclude other hosts, because the sidecar uses a Redis at a loopback address"
        return "the lock \(reason); set redis.url to the Redis that all hosts share"
    }
}
