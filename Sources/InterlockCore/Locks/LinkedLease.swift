internal import Synchronization

/// A lease that is renewed until it is released or lost, or until this object is dropped.
///
/// A coordinator renews it in this process; a dropped lease then lapses. A sidecar renews it while a connection of this
/// process is open, and releases the lock when the connection ends or this object is dropped.
public final class LinkedLease: Sendable {
    /// The lease as granted. Its holder can rely on it until the loss, even after `validity`.
    public let lease: Lease
    /// Yields the loss, at most once and no later than the lease's deadline. The stream ends without an element when
    /// the lease is released. Only one task may iterate it.
    public let losses: AsyncStream<LeaseLoss>
    private let onRelease: @Sendable () async throws -> Bool
    /// The release in progress, which all calls of `release` share; `nil` before the first one.
    private let releaseTask = Mutex<Task<Bool, any Error>?>(nil)
    private let onDrop: @Sendable () -> Void

    package init(
        _ lease: Lease, losses: AsyncStream<LeaseLoss>, onRelease: @escaping @Sendable () async throws -> Bool,
        onDrop: @escaping @Sendable () -> Void
    ) {
        self.lease = lease
        self.losses = losses
        self.onRelease = onRelease
        self.onDrop = onDrop
    }

    deinit { onDrop() }

    /// Releases the lock, even when the task is cancelled. A second call returns the result of the first.
    /// - Returns: `false` if the lease was already lost.
    /// - Throws: `InterlockError` if no reply arrives; the lock is then released, or its lease lapses.
    @discardableResult
    public func release() async throws -> Bool {
        let task = releaseTask.withLock { pending in
            let task = pending ?? Task { [onRelease] in try await onRelease() }
            pending = task
            return task
        }
        return try await task.value
    }
}
