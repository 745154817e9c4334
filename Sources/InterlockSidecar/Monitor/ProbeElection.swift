internal import Interlock
internal import InterlockCore
internal import SidecarSettings

/// The election of the sidecar that probes a service for the fleet. The elected sidecar holds the lease of an internal
/// lock.
struct ProbeElection: Sendable {
    private static let minimumLease: Int64 = 1000
    private static let maximumLease: Int64 = 30_000

    private let coordinator: Coordinator
    private let lock: ResourceName
    /// The length of the lease, in milliseconds: the probe interval, clamped to 1 to 30 seconds and to `locks.max_ttl`.
    /// A sidecar that dies is replaced within that time.
    private let ttl: Int64
    private let wait: Int64

    /// - Throws: `SidecarError` if the service's name is too long.
    init(service: String, interval: Duration, locks: LockSettings, coordinator: Coordinator) throws(SidecarError) {
        guard let lock = ProbeLock.name(ofService: service) else {
            throw SidecarError("the service's name has more than \(ProbeLock.maximumServiceBytes) bytes")
        }
        self.lock = lock
        self.coordinator = coordinator
        let wanted = max(Self.minimumLease, min(interval.wholeMilliseconds, Self.maximumLease))
        ttl = min(wanted, locks.maximumTTL.wholeMilliseconds)
        wait = locks.maximumWait.wholeMilliseconds
    }

    /// Stands for election.
    /// - Parameter waits: whether to wait for the lock, for `locks.max_wait`, but at least for a quarter of the lease.
    /// - Returns: the lease if this sidecar is elected; `nil` if another is.
    /// - Throws: `InterlockError` if no election is possible now.
    func campaign(waits: Bool) async throws -> Lease? {
        // If `locks.max_wait` is short, repeated requests without a pause would keep Redis busy.
        if waits, wait < pause { try? await Task.sleep(for: .milliseconds(pause - wait), clock: .continuous) }
        return try await coordinator.acquireLock(LockRequest(name: lock, ttl: ttl, wait: waits ? wait : 0))
    }

    /// The minimum time between two requests for the lock, in milliseconds.
    private var pause: Int64 { ttl / 4 }

    /// The time within which every other candidate stands for election again; zero if all of them wait in the lock's
    /// queue continuously.
    var candidacyInterval: Duration { .milliseconds(wait < pause ? 2 * pause : 0) }

    /// Whether an election is possible: it requires a connection to Redis.
    var isPossible: Bool {
        get async { await coordinator.isReady }
    }

    /// Runs `body` while the lease is held. If the lease is lost, `body` is cancelled immediately. If this task is
    /// cancelled, the lease is released, so that another sidecar takes over without waiting for its expiry.
    /// - Returns: the result of `body`; `nil` if the lease was lost first.
    func whileElected<Result: Sendable>(_ lease: Lease, _ body: @escaping @Sendable () async -> Result?) async -> Result? {
        let result = await withTaskGroup(of: Result?.self) { group in
            group.addTask { await body() }
            group.addTask {
                await waitUntilLost(lease)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        // A separate task is needed because this one may be cancelled. A lease that cannot be released expires.
        await Task { _ = try? await coordinator.releaseLock(lock, token: lease.token) }.value
        return result
    }

    private func waitUntilLost(_ lease: Lease) async {
        guard let followed = try? await coordinator.followLease(lease, isLinked: true) else { return await renew(lease) }
        for await _ in followed.losses { return }
    }

    /// Renews the lease until it is lost, because the coordinator does not renew leases on a quorum.
    private func renew(_ lease: Lease) async {
        let clock = TimeSource.system
        var now = clock.now()
        var held = HeldLease(
            ttl: ttl, deadline: now.advanced(byMilliseconds: lease.validMilliseconds), isAutoRenewed: true,
            maximumHoldMilliseconds: nil,
            now: now)
        while !Task.isCancelled {
            now = clock.now()
            switch held.step(now: now) {
            case .over: return
            case .wait(let until):
                // The sleep lasts until the next renewal is due. Cancellation ends the loop.
                try? await Task.sleep(for: .milliseconds(until.millisecondsRoundedUp(since: now)), clock: .continuous)
            case .renew(let ttl):
                held.renewalBegan()
                do {
                    guard try await coordinator.renewLock(lock, token: lease.token, ttl: ttl) != nil else { return }
                    held.renewalSucceeded(ttl: ttl, sentAt: now)
                } catch {
                    held.renewalFailed(now: clock.now())
                }
            }
        }
    }
}
