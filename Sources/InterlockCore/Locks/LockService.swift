/// Leased locks, embedded (`coordinator.locks`) or through a sidecar (`client.locks`): the same calls in both.
///
/// `withLock` suits most programs: it acquires a lease, renews it while the body runs, and always releases it. The
/// other calls hand out leases for programs whose work is not a single closure.
///
/// Calls throw `InterlockError`. A cancelled acquire throws `CancellationError` and leaves no lease; `release`
/// completes even when its task is cancelled.
public protocol LockService: Sendable {
    /// Acquires a lock, or waits for it. The lease lapses after its `ttl` unless it is renewed.
    /// - Parameters:
    ///   - name: 1 to 256 bytes without control characters, spaces or braces.
    ///   - options: how to acquire and hold it.
    /// - Returns: the lease; `nil` if another holder has the lock, even at the end of the wait.
    func acquire(_ name: String, options: LockOptions) async throws -> Lease?

    /// Acquires all of several locks, or no lock at all. Each lease is renewed and released separately.
    /// - Parameters:
    ///   - names: 1 to 32 different names.
    ///   - options: how to acquire and hold each. The first lease must outlast the wait for the last; the wait is for
    ///     all of them together; without an owner, each lease gets its own token.
    /// - Returns: the leases, in the order of `names`; `nil` if another holder has one of the locks, even at the end of
    ///   the wait.
    func acquire(all names: [String], options: LockOptions) async throws -> [Lease]?

    /// Acquires a lock whose lease is renewed until it is released, lost or dropped.
    /// - Returns: the lease; `nil` if another holder has the lock, even at the end of the wait.
    func acquireLinked(_ name: String, options: LockOptions) async throws -> LinkedLease?

    /// Renews a lease to `ttl` from now, or to its own TTL if `ttl` is `nil`. Never affects a later lease of the same
    /// owner.
    /// - Returns: how long the lease can be relied on from now; `nil` if it is lost.
    func renew(_ lease: Lease, ttl: Duration?) async throws -> Duration?

    /// Releases a lease, even when the task is cancelled. Never affects a later lease of the same owner.
    /// - Returns: `false` if the lease was already lost.
    @discardableResult
    func release(_ lease: Lease) async throws -> Bool

    /// Returns the description of a lock; `nil` if it has no holder and no waiter.
    func information(about name: String) async throws -> LockInformation?

    /// Breaks the current holder's lease, and hands the lock to the next waiter.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - fence: the fence of the only grant to break, which protects a later holder; `nil` for any grant.
    /// - Returns: `false` if the lock was free, or not held under that fence.
    func breakLock(_ name: String, fence: Int64?) async throws -> Bool
}

// MARK: - Options as arguments

extension LockService {
    /// Acquires a lock, or waits for it; see `acquire(_:options:)` and `LockOptions`.
    public func acquire(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        owner: String? = nil, label: String? = nil
    ) async throws -> Lease? {
        try await acquire(name, options: LockOptions(ttl: ttl, wait: wait, mode: mode, owner: owner, label: label))
    }

    /// Acquires all of several locks, or no lock at all; see `acquire(all:options:)` and `LockOptions`.
    public func acquire(
        all names: [String], ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        owner: String? = nil, label: String? = nil
    ) async throws -> [Lease]? {
        try await acquire(
            all: names, options: LockOptions(ttl: ttl, wait: wait, mode: mode, owner: owner, label: label))
    }

    /// Acquires a lock whose lease is renewed; see `acquireLinked(_:options:)` and `LockOptions`.
    public func acquireLinked(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        owner: String? = nil, label: String? = nil
    ) async throws -> LinkedLease? {
        try await acquireLinked(
            name, options: LockOptions(ttl: ttl, wait: wait, mode: mode, owner: owner, label: label))
    }

    /// Renews a lease to its own TTL from now.
    /// - Returns: how long the lease can be relied on from now; `nil` if it is lost.
    public func renew(_ lease: Lease) async throws -> Duration? { try await renew(lease, ttl: nil) }

    /// Breaks the current holder's lease, and hands the lock to the next waiter.
    /// - Returns: `false` if the lock was free.
    public func breakLock(_ name: String) async throws -> Bool { try await breakLock(name, fence: nil) }
}

// MARK: - Running a body under a lock

extension LockService {
    /// Runs `body` while holding a lock.
    ///
    /// The lease is renewed while `body` runs, and released when `body` returns, throws or is cancelled. If the lease
    /// is lost, the task of `body` is cancelled, and a resource that checks `lease.fence` refuses its later writes.
    ///
    /// - Parameters:
    ///   - name: 1 to 256 bytes without control characters, spaces or braces.
    ///   - ttl: the lease's TTL, for which the lock stays held if this process dies.
    ///   - wait: the maximum time to wait for the lock; zero does not wait. The configuration may have a lower maximum.
    ///   - mode: the mode in which to hold the lock: exclusively, as one of the readers, or as one of a semaphore's
    ///     holders.
    ///   - label: the holder's name, as others see it; `nil` for the host's name.
    ///   - isolation: the actor that `body` runs on, by default its caller's.
    ///   - body: the work under the lock, run in a separate task with the caller's isolation.
    /// - Returns: the result of `body`.
    /// - Throws: `InterlockError` with `held`, or `waitTimedOut` at the end of the wait, if another holder has the
    ///   lock, and with `leaseLost` if the lease was lost while `body` ran; otherwise the error that `body` throws.
    public func withLock<Result>(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        label: String? = nil, isolation: isolated (any Actor)? = #isolation,
        body: @escaping (Lease) async throws -> Result
    ) async throws -> Result {
        guard let linked = try await acquireLinked(name, ttl: ttl, wait: wait, mode: mode, label: label) else {
            throw wait > .zero
                ? InterlockError(.waitTimedOut, "the lock \"\(name)\" was not available within \(wait)")
                : InterlockError(.held, "the lock \"\(name)\" is held: wait for it, or try again later")
        }
        return try await linked.run(isolation: isolation, body)
    }

    /// Runs `body` while holding a lock, if the lock is available; see `withLock`.
    /// - Returns: the result of `body`; `nil` if another holder has the lock, even at the end of the wait, and `body`
    ///   did not run.
    public func withLockIfAvailable<Result>(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        label: String? = nil, isolation: isolated (any Actor)? = #isolation,
        body: @escaping (Lease) async throws -> Result
    ) async throws -> Result? {
        let linked = try await acquireLinked(name, ttl: ttl, wait: wait, mode: mode, label: label)
        return try await linked?.run(isolation: isolation, body)
    }
}

extension LinkedLease {
    /// Runs `body` to its end and releases the lease. Losing the lease or cancelling the caller's task cancels the
    /// body.
    fileprivate func run<Value>(
        isolation: isolated (any Actor)?, _ body: @escaping (Lease) async throws -> Value
    ) async throws -> Value {
        // Safe: the task below has the caller's isolation, and the caller awaits the task.
        nonisolated(unsafe) let body = body
        let bodyTask = Task { [lease] () -> UnsafeTransfer<Value> in
            _ = isolation
            do {
                return UnsafeTransfer(result: .success(try await body(lease)))
            } catch {
                return UnsafeTransfer(result: .failure(error))
            }
        }
        let lossTask = Task { [losses] () -> LeaseLoss? in
            for await loss in losses {
                bodyTask.cancel()
                return loss
            }
            return nil
        }
        let outcome = await withTaskCancellationHandler {
            await bodyTask.value.result
        } onCancel: {
            bodyTask.cancel()
        }
        lossTask.cancel()
        let loss = await lossTask.value
        // If no reply to the release arrives, assume that the lease was held, because no loss was reported before the
        // body ended.
        let wasHeld = (try? await release()) ?? true
        guard loss == nil, wasHeld else {
            let reasonSuffix = loss.map { " (\($0.rawValue))" } ?? ""
            throw InterlockError(
                .leaseLost, "the lease of \"\(lease.name)\" was lost\(reasonSuffix) while the body ran", loss: loss,
                isFromSidecar: false)
        }
        return try outcome.get()
    }
}

/// Carries the result of a body out of its task.
private struct UnsafeTransfer<Value>: @unchecked Sendable {
    // Safe: the task makes this value at its end, and the caller, which shares the task's isolation, reads it once.
    let result: Result<Value, any Error>
}
