internal import InterlockCore
internal import RedisClient

/// Performs one renewal: asks the servers, answers the caller, and restores the lease where it is missing. Confined to
/// the coordinator's event loop.
///
/// A release may overtake a restore. The restored key would then stay on that server until it expires, although no
/// majority has the lease. Therefore the attempt checks the lease again once every such release must have finished. If
/// no majority has the lease, it releases the lease on that server.
final class QuorumRenewalAttempt {
    struct Lease {
        var name: String
        var token: String
        var ttlMilliseconds: Int64
        /// The fence of the only lease to renew; `nil` for the token's current lease.
        var fence: Int64?
    }

    enum Answer {
        case renewed(validMilliseconds: Int64)
        /// A majority renewed the lease, but the replies took too long for the holder to rely on it.
        case tooLate
        case lost
        case unavailable(InterlockError)
    }

    private let lease: Lease
    private let servers: QuorumServers
    private let scripts: LockScripts
    private let runtime: CoordinatorRuntime
    private let startedAt: Instant
    private let roundTimeoutMilliseconds: Int64
    private var renewal: QuorumRenewal
    private var firstFailure: (server: QuorumServers.Server, error: RedisError)?
    private var timer: Deadlines.Entry?
    private var completion: ((Answer) -> Void)?
    /// The fence number under which each server restored the lease.
    private var restored: [QuorumServers.Server: Int64] = [:]
    private var isCheckScheduled = false

    /// Creates an attempt, inactive until `start`.
    /// - Parameter completion: called once, possibly before `start` returns.
    init(
        _ lease: Lease, servers: QuorumServers, scripts: LockScripts, runtime: CoordinatorRuntime,
        completion: @escaping (Answer) -> Void
    ) {
        self.lease = lease
        self.servers = servers
        self.scripts = scripts
        self.runtime = runtime
        self.completion = completion
        startedAt = runtime.time.now()
        roundTimeoutMilliseconds = QuorumRetry.timeoutMilliseconds(
            ttlMilliseconds: lease.ttlMilliseconds, maximumMilliseconds: runtime.timeoutMilliseconds)
        renewal = QuorumRenewal(
            servers: servers.count, ttlMilliseconds: lease.ttlMilliseconds, fence: lease.fence, startedAt: startedAt,
            timeoutMilliseconds: roundTimeoutMilliseconds)
    }

    func start() {
        timer = runtime.deadlines.schedule(at: startedAt.advanced(byMilliseconds: roundTimeoutMilliseconds)) { [self] in
            perform(renewal.timedOut(now: runtime.time.now()))
        }
        let script = QuorumRenewScript(
            script: scripts.quorumRenew, keys: runtime.keys, name: lease.name, token: lease.token,
            ttlMilliseconds: lease.ttlMilliseconds,
            fence: lease.fence)
        for server in 0..<servers.count {
            servers.send(script, to: server) { [self] result in
                var vote = QuorumRenewal.Vote.failed
                switch result {
                case .success(let reply): vote = reply
                case .failure(let error): if firstFailure == nil { firstFailure = (server, error) }
                }
                perform(renewal.vote(vote, by: server, now: runtime.time.now()))
            }
        }
    }

    private func perform(_ step: QuorumRenewal.Step) {
        switch step.result {
        case .renewed(let validMilliseconds)?: finish(.renewed(validMilliseconds: validMilliseconds))
        case .tooLate?: finish(.tooLate)
        case .lost?: finish(.lost)
        case .unavailable?: finish(.unavailable(servers.unavailable(because: firstFailure)))
        case nil: break
        }
        for restore in step.restores { execute(restore, attempts: 1) }
    }

    private func finish(_ answer: Answer) {
        timer?.cancel()
        timer = nil
        guard let completion else { return }
        self.completion = nil
        completion(answer)
    }

    // MARK: Restoring

    private func execute(_ restore: QuorumRenewal.Restore, attempts: Int) {
        guard scheduleCheck() else { return }
        let script = QuorumFenceScript(
            script: scripts.quorumFence, keys: runtime.keys, name: lease.name, token: lease.token, fence: restore.fence,
            ttlMilliseconds: lease.ttlMilliseconds, foundNumber: restore.found.number, restore: restore)
        servers.send(script, to: restore.server) { [self] result in
            switch result {
            case .success(.recorded(let number)): restored[restore.server] = number
            case .success(.occupied): retry(restore, attempts: attempts)
            case .success(.missing): break
            case .failure(let error): if error.isOutcomeUnknown { restored[restore.server] = restore.fence }
            }
        }
    }

    /// Retries a restore. The attempt of another caller may briefly hold the lock on that server.
    private func retry(_ restore: QuorumRenewal.Restore, attempts: Int) {
        let now = runtime.time.now()
        guard attempts < QuorumRetry.maximumAttempts, renewal.mayRestore(now: now) else { return }
        let retryAt = QuorumRetry.nextAttempt(
            after: now, took: now.nanoseconds - startedAt.nanoseconds, attempts: attempts,
            random: .random(in: 0...1, using: &runtime.entropy))
        runtime.deadlines.schedule(at: retryAt) { [self] in
            if renewal.mayRestore(now: runtime.time.now()) { execute(restore, attempts: attempts + 1) }
        }
    }

    /// Schedules one check for when every release in progress must have finished. Returns `false` if too many checks
    /// are pending.
    private func scheduleCheck() -> Bool {
        guard !isCheckScheduled else { return true }
        guard servers.pendingRestoreChecks < QuorumServers.restoreCheckCapacity else { return false }
        isCheckScheduled = true
        servers.pendingRestoreChecks += 1
        let checkAt = runtime.time.now()
            .advanced(byMilliseconds: roundTimeoutMilliseconds + runtime.timeoutMilliseconds)
        runtime.deadlines.schedule(at: checkAt) { [self] in check() }
        return true
    }

    /// Releases the restored keys if no majority has the lease.
    private func check() {
        guard !restored.isEmpty else {
            servers.pendingRestoreChecks -= 1
            return
        }
        let script = QuorumInspectScript(keys: runtime.keys, name: lease.name)
        servers.ask(script, withinMilliseconds: runtime.timeoutMilliseconds) { [self] answers in
            servers.pendingRestoreChecks -= 1
            let votes = answers.map { answer -> QuorumTally.Answer in
                guard case .success(let reply)? = answer else { return .failed }
                return reply.token == lease.token ? .yes : .no
            }
            guard QuorumTally(servers: servers.count, answers: votes).verdict == .no else { return }
            let until = runtime.time.now().advanced(byMilliseconds: lease.ttlMilliseconds)
            for (server, number) in restored.sorted(by: { $0.key < $1.key }) {
                servers.free(
                    QuorumServers.Leftover(
                        name: lease.name, token: lease.token, only: .recorded(fence: number), until: until),
                    on: server)
            }
        }
    }
}
