internal import InterlockCore
internal import RedisClient

/// Passes locks from one holder to the next, and releases leases that their callers no longer want.
extension LockCoordinator {
    /// Ends the lease that `token` holds. The lock passes to the next local waiter, or to the next sidecar.
    /// - Parameters:
    ///   - fence: the fence of the only grant to end; `nil` for the token's current grant.
    ///   - connection: the connection. To clean up after an unanswered acquire, pass the connection of the acquire, so
    ///     that the release follows it.
    func passOn(
        _ name: String, token: String, fence: Int64? = nil, over connection: any RedisSender,
        then done: @escaping (Result<Bool, RedisError>) -> Void
    ) {
        let queue = queue(name)
        let succession = queue.flatMap { beginSuccession(in: $0, of: token) }
        let sentAt = runtime.time.now()
        let script = ReleaseScript(
            keys: keys(name), token: token, sidecar: runtime.id, fence: fence,
            successor: succession.flatMap { succession in
                queue.map { queue in
                    ReleaseScript.Successor(
                        token: succession.waiter.token, ttlMilliseconds: succession.waiter.request.ttlMilliseconds,
                        continuesTurn: succession.decision.continuesTurn,
                        ticket: queue.ticket(hasOthers: succession.decision.hasOthers, now: sentAt))
                }
            })
        connection.send(script) { [self] result in
            // The next holder is handled first, because further waiters depend on it.
            if let queue, let succession { releaseAnswered(result, from: queue, to: succession, sentAt: sentAt) }
            switch result {
            case .success(.heldByGroup):
                connection.send(
                    ShareReleaseScript(keys: keys(name), token: token, sidecar: runtime.id, fence: fence), completion: done)
            case .success(.lost): done(.success(false))
            case .success(.passedOn): done(.success(true))
            case .success(.released):
                done(.success(true))
                // A caller may have joined while the release was in progress.
                if succession == nil { wake(name) }
            case .failure(let error): done(.failure(error))
            }
        }
    }

    private struct PendingSuccession {
        var decision: LockQueue.Succession
        var waiter: LockWaiter
    }

    /// Chooses the next local waiter as the successor if it wants an exclusive lock; otherwise returns `nil`. A
    /// separate script serves groups.
    private func beginSuccession(in queue: LocalQueue, of token: String) -> PendingSuccession? {
        // `WAIT` covers only its own connection. If locks are granted on a separate connection, replicas could not
        // confirm a grant that is made here.
        guard pipeline === runtime.pipeline, let head = queue.machine.head, let waiter = waiters[head],
            waiter.request.mode == .exclusive, var decision = queue.machine.beginRelease()
        else { return nil }
        // If the holder was not served from this queue, there is no turn to continue.
        if queue.holder != token { decision.continuesTurn = false }
        return PendingSuccession(decision: decision, waiter: waiter)
    }

    private func releaseAnswered(
        _ result: Result<ReleaseScript.Reply, RedisError>, from queue: LocalQueue, to succession: PendingSuccession,
        sentAt: Instant
    ) {
        let now = runtime.time.now()
        let waiter = succession.waiter
        switch result {
        case .success(.passedOn(let fence, let beginsTurn)):
            let nextAction = queue.machine.lockPassedOn(
                succession.decision, beginsTurn: beginsTurn, ttlMilliseconds: waiter.request.ttlMilliseconds, now: now)
            queue.holder = waiter.token
            if serve(waiter) {
                handOutOnceReplicated(AcquireScript.Grant(fence: fence), to: waiter, sentAt: sentAt)
            } else if waiter.state == .left {
                releaseGrant(waiter)
            }
            perform(nextAction, on: queue)
            serveCopies(of: waiter, in: queue)
        case .success(.released(let becameFirst)):
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isAttempting(waiter.id))
            perform(queue.machine.successorBypassed(becameFirst: becameFirst, now: now), on: queue)
        case .failure(let error) where error.mayHaveGranted:
            queue.failure = error
            markAsPossibleHolder(waiter)
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isAttempting(waiter.id))
            perform(queue.machine.releaseUnanswered(), on: queue)
        case .success(.lost), .success(.heldByGroup), .failure:
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isAttempting(waiter.id))
            perform(queue.machine.releaseFailed(), on: queue)
        }
    }

    /// Releases the grant of a waiter that has left. If the owner chose the token, keeps the lease, because a retry may
    /// already hold it.
    func releaseGrant(_ waiter: LockWaiter) {
        guard waiter.request.owner == nil else { return }
        release(
            waiter.request.name.text, token: waiter.token, ttlMilliseconds: waiter.request.ttlMilliseconds,
            over: pipeline)
    }

    /// Releases a lease of `ttlMilliseconds` that no caller wants. If that fails, retries when Redis is connected
    /// again.
    func release(_ name: String, token: String, ttlMilliseconds: Int64, over connection: (any RedisSender)? = nil) {
        let until = runtime.time.now().advanced(byMilliseconds: ttlMilliseconds)
        passOn(name, token: token, over: connection ?? runtime.pipeline) { [self] result in
            if case .failure = result { addLeftover(name, token: token, until: until) }
        }
    }

    /// Records the lease that an unanswered acquire of this waiter may have left behind.
    func addLeftover(_ waiter: LockWaiter) {
        guard waiter.request.owner == nil else { return }
        let until = runtime.time.now().advanced(byMilliseconds: waiter.request.ttlMilliseconds)
        addLeftover(waiter.request.name.text, token: waiter.token, until: until)
    }

    private func addLeftover(_ name: String, token: String, until: Instant) {
        guard leftovers.count < Self.leftoverCapacity else { return }
        leftovers.append((name, token, until))
        // A connection may stay up although a command was lost, so schedule a retry too.
        guard leftoverRetry == nil else { return }
        let retryAt = runtime.time.now().advanced(byMilliseconds: LockQueue.recheckMilliseconds)
        leftoverRetry = runtime.deadlines.schedule(at: retryAt) { [unowned self] in releaseLeftovers() }
    }

    /// Releases the leases that unanswered calls may have left behind.
    private func releaseLeftovers() {
        leftoverRetry?.cancel()
        leftoverRetry = nil
        let now = runtime.time.now()
        let pending = leftovers.filter { $0.until > now }
        leftovers = []
        for (name, token, until) in pending {
            passOn(name, token: token, over: pipeline) { [self] result in
                if case .failure = result { addLeftover(name, token: token, until: until) }
            }
        }
    }

    /// Retries pending releases, waits and renewals, because Redis is connected again.
    func redisReconnected() {
        releaseLeftovers()
        wakeAll()
        followedLeases.redisReconnected()
    }
}
