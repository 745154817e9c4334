internal import Interlock
internal import InterlockCore
internal import SidecarSettings

/// Who of the fleet probes a service: whoever has the lease of a lock of Interlock's own.
struct ProbeElection: Sendable {
    private static let shortestLease: Int64 = 1000
    private static let longestLease: Int64 = 30_000

    private let coordinator: Coordinator
    private let lock: ResourceName
    /// The lease's length in milliseconds: one that dies is replaced within a probe interval, or a second.
    private let ttl: Int64
    private let wait: Int64

    /// - Throws: `SidecarError` when the service's name is too long.
    init(service: String, interval: Duration, locks: LockSettings, coordinator: Coordinator) throws(SidecarError) {
        guard let lock = ProbeLock.name(ofService: service) else {
            throw SidecarError("the service's name has more than \(ProbeLock.longestService) bytes")
        }
        self.lock = lock
        self.coordinator = coordinator
        let wanted = max(Self.shortestLease, min(interval.wholeMilliseconds, Self.longestLease))
        ttl = min(wanted, locks.maximumTTL.wholeMilliseconds)
        wait = locks.maximumWait.wholeMilliseconds
    }

    /// Stands for election.
    /// - Parameter waits: it is waited for as long as a lock may be waited for, or a little when that is less.
    /// - Returns: the lease of whoever is elected; `nil`: another is.
    /// - Throws: `InterlockError`: nobody can be elected now.
    func stand(waits: Bool) async throws -> Lease? {
        // Where locks may not be waited for long, whoever stands again at once would keep Redis busy.
        if waits, wait < pause { try? await Task.sleep(for: .milliseconds(pause - wait), clock: .continuous) }
        return try await coordinator.acquireLock(LockRequest(name: lock, ttl: ttl, wait: waits ? wait : 0))
    }

    /// Between two requests of one that is not elected, in milliseconds.
    private var pause: Int64 { ttl / 4 }

    /// Within which the others have stood for election once more, if they do not stand in the queue all the time.
    var turnTime: Duration { .milliseconds(wait < pause ? 2 * pause : 0) }

    /// Whether an election is worth trying: Redis is there.
    var isPossible: Bool {
        get async { await coordinator.isReady }
    }

    /// Runs `body` for as long as the lease stands. When the lease is lost `body` is cancelled at once; when this task is, the
    /// lease is released, so that another takes over without waiting.
    /// - Returns: what `body` does, if the lease stands for as long.
    func whileElected<Result: Sendable>(_ lease: Lease, _ body: @escaping @Sendable () async -> Result?) async -> Result? {
        let result = await withTaskGroup(of: Result?.self) { group in
            group.addTask { await body() }
            group.addTask {
                await untilLost(lease)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        // In a task of its own, because this one may be cancelled. What cannot be released lapses.
        await Task { _ = try? await coordinator.releaseLock(lock, token: lease.token) }.value
        return result
    }

    private func untilLost(_ lease: Lease) async {
        guard let followed = try? await coordinator.followLease(lease, isLinked: true) else { return await renew(lease) }
        for await _ in followed.losses { return }
    }

    /// Leases on a quorum are not looked after by the coordinator.
    private func renew(_ lease: Lease) async {
        let clock = TimeSource.system
        var now = clock.now()
        var held = HeldLease(
            ttl: ttl, deadline: now.advanced(byMilliseconds: lease.validMilliseconds), isExtended: true, ceilingMilliseconds: nil,
            now: now)
        while !Task.isCancelled {
            now = clock.now()
            switch held.step(now: now) {
            case .over: return
            case .wait(let until):
                // Until the lease is to be extended, as its decision says. Cancelled, the loop ends.
                try? await Task.sleep(for: .milliseconds(until.millisecondsRoundedUp(since: now)), clock: .continuous)
            case .extend(let ttl):
                held.extensionBegan()
                do {
                    guard try await coordinator.renewLock(lock, token: lease.token, ttl: ttl) != nil else { return }
                    held.extended(ttl: ttl, sentAt: now)
                } catch {
                    held.extensionFailed(now: clock.now())
                }
            }
        }
    }
}
