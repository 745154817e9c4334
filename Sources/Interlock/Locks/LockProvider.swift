internal import InterlockCore

/// A store of locks: the fleet's shared Redis, or a majority of several servers. Confined to the coordinator's event
/// loop.
protocol LockProvider: AnyObject {
    /// The number of waiting callers.
    var waitingCount: Int { get }

    /// The recent grants through this sidecar.
    var history: GrantHistory { get }

    /// Returns the number of leases that were granted here and are still valid. O(n).
    func heldLeaseCount(now: Instant) -> Int

    /// Acquires a lock, or waits for it. Returns an ID that `cancel` takes.
    func acquire(_ request: LockRequest, completion: Completion<LockResult>) -> UInt64

    /// Cancels a wait. The completion is not called, and a grant that arrives later is released.
    func cancel(_ id: UInt64)

    /// Renews a lease.
    /// - Parameter fence: the fence of the only grant to renew; `nil` for the token's current grant.
    func renew(
        name: ResourceName, token: String, ttlMilliseconds: Int64, fence: Int64?, completion: Completion<RenewResult>)
    /// Releases a lease.
    /// - Parameter fence: the fence of the only grant to end; `nil` for the token's current grant.
    func release(name: ResourceName, token: String, fence: Int64?, completion: Completion<ReleaseResult>)
    /// Ends the lease of a lock's holder.
    /// - Parameter fence: the fence of the only grant to end; `nil` for any grant.
    func breakLock(name: ResourceName, by: String, fence: Int64?, completion: Completion<ReleaseResult>)
    /// Records that a message reports a lock as broken.
    func lockBroken(_ name: String)
    /// Calls `completion` with the state of a lock; `nil` if it has neither a holder nor waiters.
    func inspect(name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>)

    /// Calls `completion` with the state of each lock in the same order; `nil` for a lock that has neither a holder nor
    /// waiters.
    func inspect(names: [ResourceName], completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void)

    /// Lists one page of the held locks. `count`, from 1 to 1000, limits its duration.
    func list(cursor: String, glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>)
}

extension LockCoordinator: LockProvider {}

extension InterlockError {
    /// Creates the error for a feature that needs a single Redis.
    static func unsupportedOnQuorum(_ feature: String) -> InterlockError {
        InterlockError(
            .invalid, "\(feature) is not supported with redis.urls: quorum locks are exclusive and are not renewed automatically"
        )
    }
}

extension LockSettings {
    /// Validates a request without asking Redis. Returns the error; `nil` if the request is valid.
    func violation(in request: LockRequest) -> InterlockError? {
        let minimumMilliseconds = max(minimumTTL.wholeMilliseconds, LeaseValidity.absoluteMinimumTTLMilliseconds)
        let maximumMilliseconds = maximumTTL.wholeMilliseconds
        guard request.ttlMilliseconds >= minimumMilliseconds, request.ttlMilliseconds <= maximumMilliseconds else {
            // A number this small is usually meant in seconds.
            let isTooSmall = request.ttlMilliseconds > 0 && request.ttlMilliseconds < minimumMilliseconds
            let advice = isTooSmall ? "; \(request.ttlMilliseconds) s is \(request.ttlMilliseconds)000 ms" : ""
            return InterlockError(
                .invalid,
                "expected a ttl from \(minimumMilliseconds) to \(maximumMilliseconds) ms "
                    + "(locks.min_ttl, locks.max_ttl), got \(request.ttlMilliseconds)\(advice)")
        }
        guard request.waitMilliseconds >= 0 else {
            return InterlockError(.invalid, "expected a wait of 0 ms or more, got \(request.waitMilliseconds)")
        }
        if case .permits(let count) = request.mode, !LockMode.slots.contains(count) {
            return InterlockError(
                .invalid,
                "expected a semaphore of \(LockMode.slots.lowerBound) to \(LockMode.slots.upperBound) slots, got \(count)")
        }
        for (field, token) in [("label", request.label), ("owner", request.owner)] {
            guard let token, LockMode.isReserved(token: token) else { continue }
            return InterlockError(
                .invalid, "the \(field) \"\(token)\" is reserved for Interlock; choose another one")
        }
        return nil
    }
}

extension InterlockError {
    /// The error for a lease beyond the capacity for followed leases; see `LoopBoundCoordinator.followLease`.
    static let tooManyFollowed = InterlockError(
        .unavailable, "this sidecar already follows as many leases as it can; use another sidecar, or omit LINKED")

    static let stopped = InterlockError(
        .unavailable, "this coordinator was stopped and cannot be restarted; create a new one")

    static func keyCollision(_ name: ResourceName, _ keys: KeySpace) -> InterlockError {
        InterlockError(
            .invalid,
            "with locks.key_prefix, the key of the lock \"\(name)\" would start with the fleet's own prefix "
                + "\"\(keys.prefix)\"; choose another name or another prefix")
    }

    static func heldInAnotherMode(_ request: LockRequest, _ mode: LockMode) -> InterlockError {
        func phrase(_ mode: LockMode) -> String {
            switch mode {
            case .exclusive: "exclusively"
            case .shared: "as a shared lock"
            case .permits(let count): "as a semaphore with \(count) slots"
            }
        }
        return InterlockError(
            .invalid,
            "the lock \"\(request.name)\" is held \(phrase(mode)); "
                + "it cannot be acquired \(phrase(request.mode)) until it is released")
    }

    /// Creates the error for a change that too few replicas have acknowledged.
    /// - Parameter consequence: the change, and the consequence for the caller.
    static func unreplicated(acknowledged: Int, wanted: Int, _ consequence: String) -> InterlockError {
        InterlockError(
            .unreplicated, "only \(acknowledged) of \(wanted) replicas acknowledged \(consequence); see locks.wait_replicas")
    }
}
