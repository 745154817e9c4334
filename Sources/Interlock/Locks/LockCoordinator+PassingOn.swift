internal import InterlockCore
internal import RedisClient

/// How a lock goes from one holder to the next, and what becomes of leases that nobody wants any more.
extension LockCoordinator {
    /// Ends the lease that `token` holds: the lock passes to the next who waits here, or in the fleet.
    /// - Parameters:
    ///   - fence: the fence of the only grant to end; `nil` for whichever the token has.
    ///   - connection: the connection of an acquire without an answer; the cleanup must follow it there.
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
                        goesOn: succession.decision.goesOn,
                        ticket: queue.ticket(hasOthers: succession.decision.hasOthers, now: sentAt))
                }
            })
        connection.send(script) { [self] result in
            // The next holder first: others wait for it in turn.
            if let queue, let succession { passed(result, from: queue, to: succession, sentAt: sentAt) }
            switch result {
            case .success(.perhapsInGroup):
                connection.send(
                    ShareReleaseScript(keys: keys(name), token: token, sidecar: runtime.id, fence: fence), completion: done)
            case .success(.lost): done(.success(false))
            case .success(.passedOn): done(.success(true))
            case .success(.released):
                done(.success(true))
                // Whoever came while the release was under way.
                if succession == nil { wake(name) }
            case .failure(let error): done(.failure(error))
            }
        }
    }

    private struct SuccessionUnderWay {
        var decision: LockQueue.Succession
        var waiter: LockWaiter
    }

    /// The next who waits here, should it want the lock for itself alone: groups are joined by their own script.
    private func beginSuccession(in queue: LocalQueue, of token: String) -> SuccessionUnderWay? {
        // What is granted on another connection than its own, no replica can be waited for.
        guard pipeline === runtime.pipeline, let head = queue.decisions.head, let waiter = waiters[head],
            waiter.request.mode == .exclusive, var decision = queue.decisions.beginRelease()
        else { return nil }
        // Who was not served from this queue has none of its turns.
        if queue.holder != token { decision.goesOn = false }
        return SuccessionUnderWay(decision: decision, waiter: waiter)
    }

    private func passed(
        _ result: Result<ReleaseScript.Reply, RedisError>, from queue: LocalQueue, to succession: SuccessionUnderWay,
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
            } else if waiter.standing == .left {
                giveBack(waiter)
            }
            perform(next, on: queue)
            askForMates(of: waiter, in: queue)
        case .success(.released(let isFirst)):
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isAttempting(waiter.id))
            perform(queue.decisions.passedBy(isFirst: isFirst, now: now), on: queue)
        case .failure(let error) where error.mayHaveGranted:
            queue.failure = error
            doubt(waiter)
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isAttempting(waiter.id))
            perform(queue.decisions.releaseUnanswered(), on: queue)
        case .success(.lost), .success(.perhapsInGroup), .failure:
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isAttempting(waiter.id))
            perform(queue.decisions.releaseFailed(), on: queue)
        }
    }

    /// Passes on what was granted to somebody who is no longer there. With an owner of its own choosing nothing is given
    /// back behind the client's back: a retry may already hold that very lease.
    func giveBack(_ waiter: LockWaiter) {
        guard waiter.request.owner == nil else { return }
        release(waiter.request.name.text, token: waiter.token, ttl: waiter.request.ttl, over: pipeline)
    }

    /// Ends a lease of `ttl` milliseconds that nobody wants any more, now or as soon as Redis is back.
    func release(_ name: String, token: String, ttl: Int64, over connection: (any RedisSender)? = nil) {
        let until = runtime.time.now().advanced(byMilliseconds: ttl)
        passOn(name, token: token, over: connection ?? runtime.pipeline) { [self] result in
            if case .failure = result { remember(name, token: token, until: until) }
        }
    }

    func remember(_ waiter: LockWaiter) {
        guard waiter.request.owner == nil else { return }
        let until = runtime.time.now().advanced(byMilliseconds: waiter.request.ttl)
        remember(waiter.request.name.text, token: waiter.token, until: until)
    }

    private func remember(_ name: String, token: String, until: Instant) {
        guard leftovers.count < Self.leftoverCapacity else { return }
        leftovers.append((name, token, until))
        // Not every connection that swallowed a command goes.
        guard leftoverRetry == nil else { return }
        let retry = runtime.time.now().advanced(byMilliseconds: LockQueue.recheckMilliseconds)
        leftoverRetry = runtime.deadlines.schedule(at: retry) { [unowned self] in releaseLeftovers() }
    }

    /// What unanswered calls may have left behind is freed.
    private func releaseLeftovers() {
        leftoverRetry?.cancel()
        leftoverRetry = nil
        let now = runtime.time.now()
        let pending = leftovers.filter { $0.until > now }
        leftovers = []
        for (name, token, until) in pending {
            passOn(name, token: token, over: pipeline) { [self] result in
                if case .failure = result { remember(name, token: token, until: until) }
            }
        }
    }

    /// Redis is back: every waiter tries again.
    func redisIsBack() {
        releaseLeftovers()
        wakeAll()
        keeper.redisIsBack()
    }
}
