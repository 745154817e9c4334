internal import Interlock
internal import InterlockCore
internal import SidecarSettings

/// The election of the sidecar that probes a service for the fleet. The elected sidecar holds the lease of an internal
/// lock.
struct ProbeElection: Sendable {
    private static let minimumTTLMilliseconds: Int64 = 1000
    private static let maximumTTLMilliseconds: Int64 = 30_000

    private let coordinator: Coordinator
    private let lock: ResourceName
    /// The length of the lease: the probe interval, clamped to 1–30 seconds and to `locks.max_ttl`. If the elected
    /// sidecar dies, another replaces it within that time.
    private let ttlMilliseconds: Int64
    private let waitMilliseconds: Int64

    /// Prepares the elections for a service.
    /// - Throws: `SidecarError` if the service's name is too long.
    init(service: String, interval: Duration, locks: LockSettings, coordinator: Coordinator) throws(SidecarError) {
        guard let lock = ProbeLock.name(ofService: service) else {
            throw SidecarError("the service's name has more than \(ProbeLock.maximumServiceBytes) bytes")
        }
        self.lock = lock
        self.coordinator = coordinator
        let clampedInterval = max(
            Self.minimumTTLMilliseconds, min(interval.wholeMilliseconds, Self.maximumTTLMilliseconds))
        ttlMilliseconds = min(clampedInterval, locks.maximumTTL.wholeMilliseconds)
        waitMilliseconds = locks.maximumWait.wholeMilliseconds
    }

    /// Stands for election.
    /// - Parameter waits: whether to wait for the lock, for `locks.max_wait`, but at least for a quarter of the lease.
    /// - Returns: the lease if this sidecar is elected; `nil` if another is.
    /// - Throws: `InterlockError` if no election is possible now.
    func campaign(waits: Bool) async throws -> Lease? {
        // If `locks.max_wait` is short, repeated requests without a pause would keep Redis busy.
        if waits, waitMilliseconds < pauseMilliseconds {
            try? await Task.sleep(for: .milliseconds(pauseMilliseconds - waitMilliseconds), clock: .continuous)
        }
        return try await coordinator.acquireLock(
            LockRequest(name: lock, ttlMilliseconds: ttlMilliseconds, waitMilliseconds: waits ? waitMilliseconds : 0))
    }

    /// The minimum time between two requests for the lock.
    private var pauseMilliseconds: Int64 { ttlMilliseconds / 4 }

    /// The time within which every other candidate stands for election again; zero if all of them wait in the lock's
    /// queue continuously.
    var candidacyInterval: Duration { .milliseconds(waitMilliseconds < pauseMilliseconds ? 2 * pauseMilliseconds : 0) }

    /// Whether an election is possible, because Redis is connected.
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
        // Use a separate task, because this one may be cancelled. A lease that cannot be released expires.
        await Task { _ = try? await coordinator.releaseLock(lock, token: lease.token) }.value
        return result
    }

    /// Keeps the lease until it is lost.
    private func waitUntilLost(_ lease: Lease) async {
        guard let followedLease = try? await coordinator.followLease(lease, isLinked: true) else {
            return await renew(lease)
        }
        for await _ in followedLease.losses { return }
    }

    /// Renews the lease until it is lost. Needed on a quorum, where the coordinator does not renew leases.
    private func renew(_ lease: Lease) async {
        let clock = TimeSource.system
        var now = clock.now()
        var held = HeldLease(
            ttlMilliseconds: ttlMilliseconds, deadline: now.advanced(byMilliseconds: lease.validMilliseconds),
            isAutoRenewed: true,
            maximumHoldMilliseconds: nil,
            now: now)
        while !Task.isCancelled {
            now = clock.now()
            switch held.step(now: now) {
            case .over: return
            case .wait(let until):
                // The sleep lasts until the next renewal is due. Cancellation ends the loop.
                try? await Task.sleep(for: .milliseconds(until.millisecondsRoundedUp(since: now)), clock: .continuous)
            case .renew(let ttlMilliseconds):
                held.renewalBegan()
                do {
                    guard
                        try await coordinator.renewLock(lock, token: lease.token, ttlMilliseconds: ttlMilliseconds)
                            != nil
                    else {
                        return
                    }
                    held.renewalSucceeded(ttlMilliseconds: ttlMilliseconds, sentAt: now)
                } catch {
                    held.renewalFailed(now: clock.now())
                }
            }
        }
    }
}
