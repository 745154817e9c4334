public import InterlockCore

/// Leased locks for Swift programs: `coordinator.locks`.
///
/// A lease is taken, extended at a third of its length for as long as the body runs, and always released. When it is lost
/// the body's task is cancelled.
public struct Locks: Sendable {
    private let coordinator: Coordinator

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    /// Runs `body` while holding a lock.
    ///
    /// The lease is extended for as long as `body` runs, and released when it returns, throws or is cancelled. When the
    /// lease is lost the task that `body` runs in is cancelled: what it still writes is refused by a resource that
    /// checks `lease.fence`.
    ///
    /// - Parameters:
    ///   - name: 1…256 bytes without control characters, spaces or braces.
    ///   - ttl: the lease's length: for how long the lock stays taken should this process die.
    ///   - wait: how long to wait for the lock; zero: not at all. At most the configuration's `maximumWait`.
    ///   - mode: alone, as one of the readers, or as one of a semaphore's holders.
    /// - Returns: what `body` returns.
    /// - Throws: `LockError`; what `body` throws, unless the lease was lost: that is told instead.
    public func withLock<Result: Sendable>(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive,
        isolation: isolated (any Actor)? = #isolation,
        body: @escaping @Sendable (Lease) async throws -> Result
    ) async throws -> Result {
        let lease = try await acquire(name, ttl: ttl, wait: wait, mode: mode)
        let followed: FollowedLease
        do {
            followed = try await coordinator.followLease(lease, isLinked: true)
        } catch let error as InterlockError {
            await release(lease)
            throw LockError(error)
        }
        let outcome = await Self.race(followed.losses) { try await body(lease) }
        await release(lease)
        switch outcome {
        case .finished(let result):
            return try result.get()
        case .lost(let loss):
            throw LockError(.lost(loss), "the lease of \"\(name)\" was lost (\(loss.rawValue)) while the body ran")
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

    private func acquire(_ name: String, ttl: Duration, wait: Duration, mode: LockMode) async throws -> Lease {
        let request: LockRequest
        do throws(ResourceName.Violation) {
            let name = try ResourceName(name)
            request = LockRequest(name: name, ttl: ttl.wholeMilliseconds, wait: wait.wholeMilliseconds, mode: mode)
        } catch {
            throw LockError(.invalid, "the lock's name: \(error)")
        }
        do {
            if let lease = try await coordinator.acquireLock(request) { return lease }
        } catch let error as InterlockError {
            throw LockError(error)
        }
        throw wait > .zero
            ? LockError(.timedOut, "another had the lock \"\(name)\" for all of the \(wait) that were waited")
            : LockError(.held, "another has the lock \"\(name)\"")
    }

    /// In a task of its own: a cancelled caller releases too. What cannot be released lapses.
    private func release(_ lease: Lease) async {
        let coordinator = coordinator
        await Task {
            guard let name = try? ResourceName(lease.name) else { return }
            _ = try? await coordinator.releaseLock(name, token: lease.token)
        }.value
    }
}

extension Coordinator {
    /// Leased locks around a body.
    public nonisolated var locks: Locks { Locks(coordinator: self) }
}
