@_exported public import InterlockCore

/// Leased locks through a sidecar: `client.locks`. The calls are documented in `LockService`; an embedded coordinator
/// has the same calls.
///
/// A waiting call ends when its task is cancelled, and a lease granted at that moment is released. The sidecar may wait
/// for less time than requested: see `SidecarStatus.maximumWait`.
public struct SidecarLocks: LockService {
    let client: SidecarClient

    // MARK: Leases

    /// Acquires a lock, and waits for it as long as `options` allow. Returns `nil` if another client holds the lock.
    public func acquire(_ name: String, options: LockOptions) async throws -> Lease? {
        let lease = try await client.send(LockCalls.Acquire(name: name, options: options))
        try await releaseIfCancelled(lease.map { [$0] } ?? [])
        return lease
    }

    /// Acquires several locks, all or none, each with `options`. Returns `nil` if another client holds one of them.
    public func acquire(all names: [String], options: LockOptions) async throws -> [Lease]? {
        guard let first = names.first else {
            throw InterlockError(.invalid, "acquire(all:) requires at least one lock name")
        }
        let call = LockCalls.Acquire(name: first, options: options)
        let leases =
            if names.count == 1 {
                try await client.send(call).map { [$0] }
            } else {
                try await client.send(LockCalls.AcquireAll(first: call, others: Array(names.dropFirst())))
            }
        try await releaseIfCancelled(leases ?? [])
        return leases
    }

    /// Releases leases and throws if the task is cancelled, because the caller then never receives them.
    private func releaseIfCancelled(_ leases: [Lease]) async throws {
        guard Task.isCancelled else { return }
        // If the release fails, the lease expires.
        for lease in leases { _ = try? await release(lease) }
        throw CancellationError()
    }

    /// Acquires a lock whose lease the sidecar renews while a connection of this client is open.
    ///
    /// The sidecar closes the connection when it loses the lease. The client reports every loss as
    /// `LeaseLoss.disconnected`, within half of the lease's `ttl` and before the lease can lapse.
    public func acquireLinked(_ name: String, options: LockOptions) async throws -> LinkedLease? {
        try await client.acquireLinkedLock(LockCalls.Acquire(name: name, options: options, isLinked: true))
    }

    /// Renews a lease to `ttl` from now, by default the TTL that it was acquired with. Returns how long the lease is
    /// valid; `nil` if it is lost.
    public func renew(_ lease: Lease, ttl: Duration?) async throws -> Duration? {
        try await renew(lease.name, token: lease.token, ttl: ttl ?? lease.ttl, fence: lease.expectedFence)
    }

    /// Releases a lease, even when the task is cancelled. Returns `false` if the lease was already lost.
    @discardableResult
    public func release(_ lease: Lease) async throws -> Bool {
        try await release(lease.name, token: lease.token, fence: lease.expectedFence)
    }

    // MARK: By token

    /// Renews the lease of a token to `ttl` from now.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - token: the lease's token.
    ///   - ttl: the lease's TTL from now.
    ///   - fence: the fence of the lease to renew, so that a late retry with an owner's token does not renew a later
    ///     lease; `nil` for any lease of the token.
    /// - Returns: how long the lease can be relied on; `nil` if it is lost.
    /// - Throws: `InterlockError`.
    public func renew(_ name: String, token: String, ttl: Duration, fence: Int64? = nil) async throws -> Duration? {
        try await client.send(LockCalls.Renew(name: name, token: token, ttl: ttl, fence: fence))
    }

    /// Releases the lease of a token, even when the task is cancelled.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - token: the lease's token.
    ///   - fence: the fence of the lease to release; `nil` for any lease of the token.
    /// - Returns: `false` if the token does not hold the lock under this fence, because the lease lapsed or was broken.
    /// - Throws: `InterlockError`.
    @discardableResult
    public func release(_ name: String, token: String, fence: Int64? = nil) async throws -> Bool {
        try await client.sendOnSharedConnection(LockCalls.Release(name: name, token: token, fence: fence))
    }

    // MARK: For operators

    /// Returns the description of a lock; `nil` if it has no holder and no waiter.
    public func information(about name: String) async throws -> LockInformation? {
        try await client.send(LockCalls.Inspect(name: name))
    }

    /// Breaks the current holder's lease. Requires an API key with the role `admin` if keys are configured.
    /// - Returns: `false` if the lock was free, or not held under `fence`.
    public func breakLock(_ name: String, fence: Int64?) async throws -> Bool {
        try await client.send(LockCalls.Break(name: name, fence: fence))
    }

    /// Lists the last 100 grants through the sidecar, of one lock or of all, newest first. The sidecar keeps them in
    /// memory, so grants through other sidecars or from before its start are missing.
    public func grants(of name: String? = nil) async throws -> [SidecarGrant] {
        try await client.send(LockCalls.Grants(name: name))
    }

    /// Lists the names of the locks that are held in the whole fleet, each once, in no order.
    /// - Parameters:
    ///   - glob: the pattern that names must match, in the syntax of the Redis command `KEYS`.
    ///   - limit: the maximum number of names.
    /// - Returns: the names, and whether the list is complete.
    public func names(matching glob: String = "*", limit: Int = 1000) async throws -> (names: [String], isComplete: Bool) {
        var names: Set<String> = []
        var cursor = LockCalls.List.start
        repeat {
            let page = try await client.send(LockCalls.List(cursor: cursor, glob: glob))
            for name in page.names where !names.contains(name) {
                guard names.count < limit else { return (Array(names), false) }
                names.insert(name)
            }
            cursor = page.cursor
        } while cursor != LockCalls.List.start
        return (Array(names), true)
    }

    /// Returns descriptions of those locks that are still held, sorted by name.
    public func information(about names: [String]) async throws -> [LockInformation] {
        // The maximum number of concurrent queries.
        let batchSize = 100
        var locks: [LockInformation] = []
        for start in stride(from: 0, to: names.count, by: batchSize) {
            try await withThrowingTaskGroup(of: LockInformation?.self) { group in
                for name in names[start..<min(start + batchSize, names.count)] {
                    group.addTask { try await information(about: name) }
                }
                for try await lock in group {
                    if let lock, lock.isHeld { locks.append(lock) }
                }
            }
        }
        return locks.sorted { $0.name < $1.name }
    }
}

extension SidecarClient {
    /// Leased locks.
    public nonisolated var locks: SidecarLocks { SidecarLocks(client: self) }

    /// Acquires a linked lock on a dedicated connection.
    func acquireLinkedLock(_ call: LockCalls.Acquire) async throws -> LinkedLease? {
        try Task.checkCancellation()
        let connection = try makeDedicatedConnection()
        guard let lease = try await metrics.counting({ try await self.send(call, on: connection) }) else {
            connection.close()
            return nil
        }
        guard !Task.isCancelled else {
            // Closing the connection makes the sidecar release the lock.
            connection.close()
            throw CancellationError()
        }
        return LeaseConnectionMonitor.makeLinkedLease(lease, connection: connection, eventLoop: eventLoop, metrics: metrics)
    }
}
