public import InterlockCore

/// Leased locks: `coordinator.locks`.
///
/// `withLock` is what most programs want: it takes a lease, extends it for as long as the body runs, and always releases it.
/// The other calls hand out leases for programs whose work is no single closure.
public struct Locks: Sendable {
    private let coordinator: Coordinator

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    // MARK: Around a body

    /// Runs `body` while holding a lock.
    ///
    /// The lease is extended at a third of its length for as long as `body` runs, and released when `body` returns, throws or
    /// is cancelled. When the lease is lost, the task that `body` runs in is cancelled: a resource that checks `lease.fence`
    /// refuses what it still writes.
    ///
    /// - Parameters:
    ///   - name: 1 to 256 bytes without control characters, spaces or braces.
    ///   - ttl: the lease's length: how long the lock stays taken if this process dies.
    ///   - wait: how long to wait for the lock; zero: not at all. At most the configuration's `maximumWait`.
    ///   - mode: alone, as one of the readers, or as one of a semaphore's holders.
    ///   - label: what others see of the holder; `nil`: the configuration's `host`.
    ///   - isolation: where this call runs: with its caller.
    ///   - body: what is done while the lock is held, in a task of its own.
    /// - Returns: what `body` returns.
    /// - Throws: `LockError`; what `body` throws, unless the lease was lost: then `LockError` with `lost`.
    public func withLock<Result: Sendable>(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        label: String? = nil, isolation: isolated (any Actor)? = #isolation,
        body: @escaping @Sendable (Lease) async throws -> Result
    ) async throws -> Result {
        guard let lease = try await acquire(name, ttl: ttl, wait: wait, mode: mode, label: label) else {
            throw wait > .zero
                ? LockError(.timedOut, "another had the lock \"\(name)\" for all of the \(wait) that were waited")
                : LockError(.held, "another has the lock \"\(name)\"")
        }
        let followed: FollowedLease
        do {
            followed = try await follow(lease, extends: true)
        } catch {
            await releaseOnOwn(lease)
            throw error
        }
        let outcome = await Self.race(followed.losses) { try await body(lease) }
        await releaseOnOwn(lease)
        switch outcome {
        case .finished(let result):
            return try result.get()
        case .lost(let loss):
            throw LockError(.lost, "the lease of \"\(name)\" was lost (\(loss.rawValue)) while the body ran", loss: loss)
        }
    }

    private enum Outcome<Value: Sendable>: Sendable {
        case finished(Swift.Result<Value, any Error>)
        case lost(LeaseLoss)
    }

    /// Runs `body` until it ends; a loss cancels it, and is what is told. A cancelled caller cancels the body too.
    private static func race<Value: Sendable>(
        _ losses: AsyncStream<LeaseLoss>, body: @escaping @Sendable () async throws -> Value
    ) async -> Outcome<Value> {
        let work = Task { try await body() }
        let watcher = Task { () -> LeaseLoss? in
            for await loss in losses {
                work.cancel()
                return loss
            }
            return nil
        }
        let result = await withTaskCancellationHandler {
            await work.result
        } onCancel: {
            work.cancel()
        }
        watcher.cancel()
        if let loss = await watcher.value { return .lost(loss) }
        return .finished(result)
    }

    /// In a task of its own: a cancelled caller releases too. What cannot be released lapses.
    private func releaseOnOwn(_ lease: Lease) async {
        await Task { _ = try? await release(lease) }.value
    }

    // MARK: Leases

    /// Takes a lock, or waits for it. The lease lapses after `ttl` unless it is renewed.
    ///
    /// - Parameters:
    ///   - name: 1 to 256 bytes without control characters, spaces or braces.
    ///   - ttl: the lease's length.
    ///   - wait: how long to wait for the lock; zero: not at all. At most the configuration's `maximumWait`.
    ///   - mode: alone, as one of the readers, or as one of a semaphore's holders.
    ///   - owner: the token to hold it by. The same owner asking again gets the same lease; `nil`: a new token is made.
    ///   - label: what others see of the holder; `nil`: the configuration's `host`.
    /// - Returns: the lease; `nil`: another has the lock, also at the end of the wait.
    /// - Throws: `LockError`. Cancelling the task gives the wait up.
    public func acquire(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        owner: String? = nil, label: String? = nil
    ) async throws(LockError) -> Lease? {
        let request = LockRequest(
            name: try Self.checked(name), ttl: ttl.wholeMilliseconds, wait: wait.wholeMilliseconds,
            owner: try Self.checked(owner, "owner"), label: try Self.checked(label, "label"), mode: mode)
        return try await Self.translated { try await coordinator.acquireLock(request) }
    }

    /// Takes several locks, or none.
    ///
    /// - Parameters:
    ///   - names: each once, at least one and at most 32.
    ///   - ttl: the length of each lease: the first must outlast the wait for the last.
    ///   - wait: how long to wait for all of them together.
    ///   - mode: how each is held.
    ///   - owner: the token to hold all of them by; `nil`: a new one is made for each.
    ///   - label: what others see of the holder; `nil`: the configuration's `host`.
    /// - Returns: the leases, in the order of `names`; `nil`: another has one of the locks, also at the end of the wait.
    /// - Throws: `LockError`. Cancelling the task gives the wait up.
    public func acquire(
        all names: [String], ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        owner: String? = nil, label: String? = nil
    ) async throws(LockError) -> [Lease]? {
        var checked: [ResourceName] = []
        for name in names { checked.append(try Self.checked(name)) }
        guard let first = checked.first else { throw LockError(.invalid, "no lock is named: name at least one") }
        let template = LockRequest(
            name: first, ttl: ttl.wholeMilliseconds, wait: wait.wholeMilliseconds, owner: try Self.checked(owner, "owner"),
            label: try Self.checked(label, "label"), mode: mode)
        let request = JointLockRequest(names: checked, template: template)
        return try await Self.translated { try await coordinator.acquireLocks(request) }
    }

    /// Extends a lease to `ttl` from now. Never affects a later lease of the same owner.
    /// - Returns: how long it can be relied on from now; `nil`: the lease is lost.
    /// - Throws: `LockError`.
    public func renew(_ lease: Lease, ttl: Duration? = nil) async throws(LockError) -> Duration? {
        let name = try Self.checked(lease.name)
        let milliseconds = ttl?.wholeMilliseconds ?? lease.ttlMilliseconds
        return try await Self.translated {
            try await coordinator.renewLock(name, token: lease.token, ttl: milliseconds, fence: lease.ownersFence)
                .map { .milliseconds($0) }
        }
    }

    /// Ends a lease, also when the task is cancelled. Never affects a later lease of the same owner.
    /// - Returns: `false`: the lock was no longer held by it.
    /// - Throws: `LockError`.
    @discardableResult
    public func release(_ lease: Lease) async throws(LockError) -> Bool {
        let name = try Self.checked(lease.name)
        let release: @Sendable () async throws -> Bool = { [coordinator] in
            try await coordinator.releaseLock(name, token: lease.token, fence: lease.ownersFence)
        }
        guard Task.isCancelled else { return try await Self.translated(release) }
        return try await Self.translated { try await Task { try await release() }.value }
    }

    /// Reports the loss of a lease, until the lease ends, until `unfollow`, or until the returned value is dropped.
    /// - Parameters:
    ///   - lease: as it was granted.
    ///   - extends: whether to extend the lease at a third of its length meanwhile.
    /// - Throws: `LockError` when too many leases are followed, the coordinator was stopped, or locks are kept on a
    ///   quorum.
    public func follow(_ lease: Lease, extends: Bool) async throws(LockError) -> FollowedLease {
        try await Self.translated { try await coordinator.followLease(lease, isLinked: extends) }
    }

    /// Stops reporting the loss of a lease and ends its stream; an extended lease then lapses in its own time.
    public func unfollow(_ lease: FollowedLease) async {
        await coordinator.unfollowLease(lease)
    }

    // MARK: For operators

    /// Describes a lock; `nil`: nobody holds it or waits for it.
    /// - Throws: `LockError`.
    public func information(about name: String) async throws(LockError) -> LockInformation? {
        let name = try Self.checked(name)
        return try await Self.translated { try await coordinator.inspectLock(name) }
    }

    /// Takes a lock from whoever holds it, and gives it to the next who waits.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - by: who does it, for the event that tells of it.
    ///   - fence: breaks it only while the grant with this fence holds it, of a shared lock or semaphore as one of several: so a lock that
    ///     has passed on since somebody looked is not taken from its next holder. `nil`: whoever holds it.
    /// - Returns: `false`: nobody held it, or not under that fence.
    /// - Throws: `LockError`.
    public func breakLock(_ name: String, by: String, fence: Int64? = nil) async throws(LockError) -> Bool {
        let name = try Self.checked(name)
        return try await Self.translated { try await coordinator.breakLock(name, by: by, fence: fence) }
    }

    private static func checked(_ name: String) throws(LockError) -> ResourceName {
        do {
            return try ResourceName(name)
        } catch {
            throw LockError(.invalid, "the lock's name: \(error)")
        }
    }

    /// An owner's token and a label keep the rule of names, as at the doors.
    private static func checked(_ text: String?, _ parameter: String) throws(LockError) -> String? {
        guard let text else { return nil }
        do throws(ResourceName.Violation) {
            return try ResourceName(text).text
        } catch {
            throw LockError(.invalid, error.message(for: parameter))
        }
    }

    /// The coordinator throws nothing but `InterlockError`.
    private static func translated<Value>(_ call: () async throws -> Value) async throws(LockError) -> Value {
        do {
            return try await call()
        } catch let error as InterlockError {
            throw LockError(error)
        } catch {
            throw LockError(.unavailable, "\(error)")
        }
    }
}

extension Coordinator {
    /// Leased locks.
    public nonisolated var locks: Locks { Locks(coordinator: self) }
}
