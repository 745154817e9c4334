internal import InterlockCore
internal import RedisClient

/// Passes locks from one holder to the next, and releases leases that their callers no longer want.
extension LockCoordinator {
    /// Ends the lease that `token` holds. The lock passes to the next local waiter, or to the next sidecar.
    /// - Parameters:
    ///   - fence: the fence of the only grant to end; `nil` for the token's current grant.
    ///   - connection: the connection. To clean up after an unanswered acquire it must be that of the acquire, so that
    ///     the release follows it.
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
                        token: succession.waiter.token, ttl: succession.waiter.request.ttl,
                        continuesTurn: succession.decision.continuesTurn,
                        ticket: queue.ticket(hasOthers: succession.decision.hasOthers, now: sentAt))
                }
            })
        connection.send(script) { [self] result in
            // The next holder is handled first, because further waiters depend on it.
            if let queue, let succession { passed(result, from: queue, to: succession, sentAt: sentAt) }
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

    /// Returns the next local waiter if it wants an exclusive lock. Groups use a separate script.
    private func beginSuccession(in queue: LocalQueue, of token: String) -> PendingSuccession? {
        // `WAIT` covers only its own connection. If locks are granted on a separate one, a grant here could not be
        // confirmed by replicas.
        guard pipeline === runtime.pipeline, let head = queue.decisions.head, let waiter = waiters[head],
            waiter.request.mode == .exclusive, var decision = queue.decisions.beginRelease()
        else { return nil }
        // If the holder was not served from this queue, there is no turn to continue.
        if queue.holder != token { decision.continuesTurn = false }
        return PendingSuccession(decision: decision, waiter: waiter)
    }

    private func passed(
        _ result: Result<ReleaseScript.Reply, RedisError>, from queue: LocalQueue, to succession: PendingSuccession,
        sentAt: Instant
    ) {
        let now = runtime.time.now()
        let waiter = succession.waiter
        switch result {
        case .success(.passedOn(let fence, let beginsTurn)):
            let next = queue.decisions.passedOn(
                succession.decision, beginsTurn: beginsTurn, ttl: waiter.request.ttl, now: now)
            queue.holder = waiter.token
            if serve(waiter) {
                hand(AcquireScript.Grant(fence: fence), to: waiter, sentAt: sentAt)
            } else if waiter.state == .left {
                releaseGrant(waiter)
            }
            perform(next, on: queue)
            serveCopies(of: waiter, in: queue)
        case .success(.released(let becameFirst)):
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isAttempting(waiter.id))
            perform(queue.decisions.bypassed(becameFirst: becameFirst, now: now), on: queue)
        case .failure(let error) where error.mayHaveGranted:
            queue.failure = error
            markAsPossibleHolder(waiter)
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isAttempting(waiter.id))
            perform(queue.decisions.releaseUnanswered(), on: queue)
        case .success(.lost), .success(.heldByGroup), .failure:
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isAttempting(waiter.id))
            perform(queue.decisions.releaseFailed(), on: queue)
        }
    }

    /// Releases the grant of a waiter that has left. If the owner chose the token the lease is kept, because a retry
    /// may already hold that lease.
    func releaseGrant(_ waiter: LockWaiter) {
        guard waiter.request.owner == nil else { return }
        release(waiter.request.name.text, token: waiter.token, ttl: waiter.request.ttl, over: pipeline)
    }

    /// Releases a lease of `ttl` milliseconds that no caller wants, now or as soon as Redis is back.
    func release(_ name: String, token: String, ttl: Int64, over connection: (any RedisSender)? = nil) {
        let until = runtime.time.now().advanced(byMilliseconds: ttl)
        passOn(name, token: token, over: connection ?? runtime.pipeline) { [self] result in
            if case .failure = result { addLeftover(name, token: token, until: until) }
        }
    }

    func addLeftover(_ waiter: LockWaiter) {
        guard waiter.request.owner == nil else { return }
        let until = runtime.time.now().advanced(byMilliseconds: waiter.request.ttl)
        addLeftover(waiter.request.name.text, token: waiter.token, until: until)
    }

    private func addLeftover(_ name: String, token: String, until: Instant) {
        guard leftovers.count < Self.leftoverCapacity else { return }
        leftovers.append((name, token, until))
        // A connection that lost a command may stay up, so a retry is scheduled as well.
        guard leftoverRetry == nil else { return }
        let retry = runtime.time.now().advanced(byMilliseconds: LockQueue.recheckMilliseconds)
        leftoverRetry = runtime.deadlines.schedule(at: retry) { [unowned self] in releaseLeftovers() }
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

    /// Retries for every waiter, because Redis is back.
    func redisReconnected() {
        releaseLeftovers()
        wakeAll()
        followedLeases.redisReconnected()
    }
}
