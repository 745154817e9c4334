public import InterlockCore

/// Leased locks: `coordinator.locks`. The calls are documented in `LockService`; `SidecarClient.locks` has the same
/// calls.
public struct Locks: LockService {
    private let coordinator: Coordinator

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    // MARK: Leases

    /// Acquires a lock, or waits for it, as `options` say. Returns `nil` if another holder has it.
    public func acquire(_ name: String, options: LockOptions) async throws -> Lease? {
        try await coordinator.acquireLock(try Self.request(try Self.validated(name), options))
    }

    /// Acquires all of several locks or none of them, each with `options`. Returns `nil` if another holder has one of
    /// them.
    public func acquire(all names: [String], options: LockOptions) async throws -> [Lease]? {
        let validated = try names.map { try Self.validated($0) }
        guard let first = validated.first else {
            throw InterlockError(.invalid, "acquire(all:) requires at least one lock name")
        }
        return try await coordinator.acquireLocks(
            JointLockRequest(names: validated, template: try Self.request(first, options)))
    }

    /// Acquires a lock whose lease is renewed every third of its TTL until it is released, lost or dropped.
    /// Returns `nil` if another holder has it.
    public func acquireLinked(_ name: String, options: LockOptions) async throws -> LinkedLease? {
        guard let lease = try await acquire(name, options: options) else { return nil }
        do {
            let followed = try await follow(lease, renews: true)
            try Task.checkCancellation()
            return LinkedLease(
                lease, losses: followed.losses, onRelease: { try await release(lease) }, onDrop: followed.end)
        } catch {
            // A retry of the owner may hold this lease, so it is not released then. It expires.
            if !lease.hasOwnerToken { _ = try? await release(lease) }
            throw error
        }
    }

    /// Renews a lease to `ttl` from now, by default the lease's own TTL. Returns the time for which the lease is valid;
    /// `nil` if it is lost.
    public func renew(_ lease: Lease, ttl: Duration?) async throws -> Duration? {
        try await coordinator.renewLock(
            try Self.validated(lease.name), token: lease.token,
            ttlMilliseconds: ttl?.wholeMilliseconds ?? lease.ttlMilliseconds,
            fence: lease.expectedFence
        ).map { .milliseconds($0) }
    }

    /// Releases a lease, even if the task is cancelled. Returns `false` if the lease was already lost.
    @discardableResult
    public func release(_ lease: Lease) async throws -> Bool {
        try await coordinator.releaseLock(
            try Self.validated(lease.name), token: lease.token, fence: lease.expectedFence)
    }

    /// Follows a lease, and reports its loss. Following ends with the lease, with `unfollow`, or when the returned
    /// value is dropped.
    /// - Parameters:
    ///   - lease: the lease as it was granted.
    ///   - renews: whether to renew the lease every third of its TTL while it is followed.
    /// - Throws: `InterlockError` if too many leases are followed, if the coordinator was stopped, or if locks are kept
    ///   on a quorum.
    public func follow(_ lease: Lease, renews: Bool) async throws -> FollowedLease {
        guard lease.deadline > Lease.unknownDeadline else {
            throw InterlockError(
                .invalid,
                "the lease of \"\(lease.name)\" was acquired through a sidecar and cannot be followed here; "
                    + "acquire it with this coordinator, or link it through the sidecar")
        }
        return try await coordinator.followLease(lease, isLinked: renews)
    }

    /// Stops following a lease, and ends its stream of losses. If following renewed the lease, it then lapses after its
    /// TTL unless it is renewed or released.
    public func unfollow(_ lease: FollowedLease) async {
        await coordinator.unfollowLease(lease)
    }

    // MARK: Operators

    /// Returns the description of a lock; `nil` if it has neither a holder nor waiters.
    public func information(about name: String) async throws -> LockInformation? {
        try await coordinator.inspectLock(try Self.validated(name))
    }

    /// Breaks the current holder's lease; the fleet's event names this program's host. Returns `false` if the lock was
    /// free, or not held under `fence`.
    public func breakLock(_ name: String, fence: Int64?) async throws -> Bool {
        try await breakLock(name, by: coordinator.configuration.host, fence: fence)
    }

    /// Breaks the current holder's lease, and attributes the break to `by` in the fleet's event.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - by: the person or program that breaks it.
    ///   - fence: the fence of the only grant to break; `nil` for any grant.
    /// - Returns: `false` if the lock was free, or not held under that fence.
    /// - Throws: `InterlockError`.
    public func breakLock(_ name: String, by: String, fence: Int64? = nil) async throws -> Bool {
        try await coordinator.breakLock(try Self.validated(name), by: by, fence: fence)
    }

    private static func request(_ name: ResourceName, _ options: LockOptions) throws(InterlockError) -> LockRequest {
        LockRequest(
            name: name, ttlMilliseconds: options.ttl.wholeMilliseconds,
            waitMilliseconds: options.wait.wholeMilliseconds,
            owner: try validated(options.owner, "owner"), label: try validated(options.label, "label"), mode: options.mode)
    }

    private static func validated(_ name: String) throws(InterlockError) -> ResourceName {
        do {
            return try ResourceName(name)
        } catch {
            throw InterlockError(.invalid, "invalid lock name: \(error)")
        }
    }

    /// Checks an owner's token or a label. Both follow the rules for names in every API.
    private static func validated(_ label: String?, _ parameter: String) throws(InterlockError) -> String? {
        guard let label else { return nil }
        do throws(ResourceName.Violation) {
            return try ResourceName(label).text
        } catch {
            throw InterlockError(.invalid, error.message(for: parameter))
        }
    }
}

extension Coordinator {
    /// Leased locks.
    public nonisolated var locks: Locks { Locks(coordinator: self) }
}
