extension SidecarClient {
    /// Acquires a lock.
    /// - Parameters:
    ///   - name: 1 to 256 bytes without control characters, white space or braces.
    ///   - ttl: how long the lease lasts. Nothing renews it by itself; see `acquireLinkedLock`.
    ///   - wait: how long to wait while another holds it. The sidecar may wait for less: see `SidecarStatus.maximumWait`.
    ///   - mode: alone, as one of the readers, or as one of a semaphore's holders.
    ///   - owner: a token of one's own. Asking again with it gives the same lease, extended: a retry is safe. `nil`: a new one is made.
    ///   - label: what others see of the holder; `nil`: the sidecar's host name.
    /// - Returns: `nil` when another holds it, also at the end of the wait.
    /// - Throws: `SidecarClientError`; `CancellationError` when the task is cancelled: then the lock is not held.
    public func acquireLock(
        _ name: String, ttl: Duration, wait: Duration = .zero, mode: SidecarLockMode = .exclusive, owner: String? = nil,
        label: String? = nil
    ) async throws -> SidecarLease? {
        let lease = try await send(
            LockCalls.Acquire(name: name, ttl: ttl, wait: wait, mode: mode, owner: owner, label: label))
        try await giveBackIfCancelled(lease.map { [$0] } ?? [], isOwners: owner != nil)
        return lease
    }

    /// Acquires several locks, all or none. See `acquireLock`; each lease is renewed and released by itself.
    /// - Parameters:
    ///   - names: each once; at least one and at most 32.
    ///   - ttl: how long each lease lasts: the first must outlast the wait for the last.
    ///   - wait: how long to wait for all of them together.
    ///   - mode: how each is held.
    ///   - owner: a token of one's own for all of them; `nil`: a new one is made for each.
    ///   - label: what others see of the holder; `nil`: the sidecar's host name.
    /// - Returns: the leases in the order of the names; `nil` when another holds one of them.
    /// - Throws: as `acquireLock`; with the code `invalid` when no lock is named.
    public func acquireLocks(
        _ names: [String], ttl: Duration, wait: Duration = .zero, mode: SidecarLockMode = .exclusive, owner: String? = nil,
        label: String? = nil
    ) async throws -> [SidecarLease]? {
        guard let first = names.first else {
            throw SidecarClientError(.invalid, "no lock is named: name at least one")
        }
        let call = LockCalls.Acquire(name: first, ttl: ttl, wait: wait, mode: mode, owner: owner, label: label)
        let leases: [SidecarLease]?
        if names.count == 1 {
            leases = try await send(call).map { [$0] }
        } else {
            leases = try await send(LockCalls.AcquireAll(first: call, others: Array(names.dropFirst())))
        }
        try await giveBackIfCancelled(leases ?? [], isOwners: owner != nil)
        return leases
    }

    /// A caller that was cancelled never learns of its leases.
    /// - Parameter isOwners: the caller chose the token: it may have got a later lease by when this release arrives.
    private func giveBackIfCancelled(_ leases: [SidecarLease], isOwners: Bool) async throws {
        guard Task.isCancelled else { return }
        for lease in leases {
            // One that cannot be given back lapses.
            _ = try? await deliver(
                LockCalls.Release(name: lease.name, token: lease.token, fence: isOwners ? lease.fence : nil))
        }
        throw CancellationError()
    }

    /// Acquires a lock whose lease the sidecar extends until it is released or this client's connection for it ends. See `acquireLock`.
    /// - Returns: `nil` when another holds it, also at the end of the wait.
    public func acquireLinkedLock(
        _ name: String, ttl: Duration, wait: Duration = .zero, mode: SidecarLockMode = .exclusive, owner: String? = nil,
        label: String? = nil
    ) async throws -> LinkedLease? {
        try Task.checkCancellation()
        let connection = try makeOwnConnection()
        let call = LockCalls.Acquire(
            name: name, ttl: ttl, wait: wait, mode: mode, owner: owner, label: label, isLinked: true)
        guard let lease = try await send(call, on: connection) else {
            connection.close()
            return nil
        }
        guard !Task.isCancelled else {
            // The sidecar releases it.
            connection.close()
            throw CancellationError()
        }
        return LinkedLease(lease, ttl: ttl, isOwners: owner != nil, connection: connection, eventLoop: eventLoop)
    }

    /// Runs `body` while holding a lock, whose lease is extended as long as that takes, and releases it.
    ///
    /// When the lease is lost, the task of `body` is cancelled. See `acquireLock` for the parameters. A release that the sidecar
    /// did not answer changes nothing: it gives the lock back by itself when the connection ends. A loss that crosses the release on
    /// its way cannot be told from that, and counts as held.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `SidecarClientError` with the code `leaseLost` when the lease was lost while `body` ran, and, when `body`
    ///   was not run because another holds the lock, with `held`, or `waitOver` at the end of the wait.
    public func withLock<Result: Sendable>(
        _ name: String, ttl: Duration = .seconds(30), wait: Duration = .zero, mode: SidecarLockMode = .exclusive,
        label: String? = nil, _ body: @escaping @Sendable (SidecarLease) async throws -> Result
    ) async throws -> Result {
        guard let linked = try await acquireLinkedLock(name, ttl: ttl, wait: wait, mode: mode, label: label) else {
            throw wait > .zero
                ? SidecarClientError(.waitOver, "another held the lock \(name) for all of the \(wait) that were waited")
                : SidecarClientError(.held, "another holds the lock \(name); wait for it, or try again later")
        }
        let outcome = await withTaskGroup(of: Part<Result>.self) { group in
            group.addTask {
                do {
                    return .finished(.success(try await body(linked.lease)))
                } catch {
                    return .finished(.failure(error))
                }
            }
            group.addTask {
                for await _ in linked.losses { return .lost }
                return .watched
            }
            var outcome: Swift.Result<Result, any Error>?
            var isLost = false
            for await part in group {
                switch part {
                case .finished(let result): outcome = result
                case .lost: isLost = true
                case .watched: continue
                }
                group.cancelAll()
            }
            return isLost ? nil : outcome
        }
        // When nobody knows how the release went, `body` had ended before a loss was told.
        let wasHeld = (try? await linked.release()) ?? true
        guard let outcome, wasHeld else {
            throw SidecarClientError(.leaseLost, "the lease of \(name) was lost while work went on under it")
        }
        return try outcome.get()
    }

    /// Extends a lease: it lasts for `ttl` from now on.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - token: the lease's token.
    ///   - ttl: how long the lease lasts from now on.
    ///   - fence: only the lease with this fence. Give it with a token of your own: then a call that is sent again, and arrives late, does
    ///     not extend a later lease that you got with the same token. `nil`: whichever lease the token has.
    /// - Returns: for how long it can be relied on; `nil`: it is lost.
    /// - Throws: `SidecarClientError`.
    public func renewLock(_ name: String, token: String, ttl: Duration, fence: Int64? = nil) async throws -> Duration? {
        try await send(LockCalls.Renew(name: name, token: token, ttl: ttl, fence: fence))
    }

    /// Gives a lock back, also when the task is cancelled.
    /// - Parameters:
    ///   - name: the lock's name.
    ///   - token: the lease's token.
    ///   - fence: only the lease with this fence, as of `renewLock`.
    /// - Returns: `false` when the token does not hold it, or not under this fence: the lease lapsed, or was broken.
    @discardableResult
    public func releaseLock(_ name: String, token: String, fence: Int64? = nil) async throws -> Bool {
        try await deliver(LockCalls.Release(name: name, token: token, fence: fence))
    }

    /// Takes a lock from whoever holds it. Needs an API key with the role `admin` where keys are configured.
    /// - Parameter fence: only while the grant with this fence holds it, of a shared lock or semaphore as one of several; `nil`: whoever.
    /// - Returns: `false` when nobody held it, or not under that fence.
    public func breakLock(_ name: String, fence: Int64? = nil) async throws -> Bool {
        try await send(LockCalls.Break(name: name, fence: fence))
    }

    /// What anybody may know of a lock.
    /// - Returns: `nil` when nobody holds it or waits for it.
    public func inspectLock(_ name: String) async throws -> SidecarLock? {
        try await send(LockCalls.Inspect(name: name))
    }

    /// The last 100 grants through the sidecar, of one lock or of all, the newest first. It has them in its memory: those of other sidecars
    /// and those from before it started are not among them.
    public func lockGrants(of name: String? = nil) async throws -> [SidecarGrant] {
        try await send(LockCalls.Grants(name: name))
    }

    /// The names of the locks that are held in the whole fleet, each once, in no order.
    /// - Parameters:
    ///   - glob: only names that match, as the `KEYS` command of Redis matches.
    ///   - limit: the most that are listed.
    /// - Returns: the names, and whether these are all that match.
    public func lockNames(matching glob: String = "*", limit: Int = 1000) async throws -> (names: [String], isComplete: Bool) {
        var names: Set<String> = []
        var cursor = LockCalls.List.start
        repeat {
            let page = try await send(LockCalls.List(cursor: cursor, glob: glob))
            for name in page.names where !names.contains(name) {
                guard names.count < limit else { return (Array(names), false) }
                names.insert(name)
            }
            cursor = page.cursor
        } while cursor != LockCalls.List.start
        return (Array(names), true)
    }

    /// What there is to know of each of the locks, by name; those that ended meanwhile are left out.
    public func inspectLocks(_ names: [String]) async throws -> [SidecarLock] {
        // So many are asked for without waiting for answers.
        let batchSize = 100
        var locks: [SidecarLock] = []
        for start in stride(from: 0, to: names.count, by: batchSize) {
            try await withThrowingTaskGroup(of: SidecarLock?.self) { group in
                for name in names[start..<min(start + batchSize, names.count)] {
                    group.addTask { try await self.inspectLock(name) }
                }
                for try await lock in group {
                    if let lock, lock.isHeld { locks.append(lock) }
                }
            }
        }
        return locks.sorted { $0.name < $1.name }
    }
}

/// How a part of `withLock` ended.
private enum Part<Value: Sendable>: Sendable {
    case finished(Result<Value, any Error>)
    case lost
    /// Nobody reads losses any more.
    case watched
}
