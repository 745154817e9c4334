internal import InterlockCore

/// How a lock goes from one holder to the next, and what holders ask: `LockCoordinator+PassingOn` and `+Holders`.
extension LockRoom {
    enum RenewAnswer {
        case renewed(validFor: Int64)
        case lost
        case failed
    }

    enum ReleaseAnswer {
        case released
        case lost
        case failed
    }

    func renew(_ lock: SimulatedLock, token: String, ttl: Int64, answer: @escaping (RenewAnswer) -> Bool) {
        let sentAt = now
        let answered: (Result<TokenStanding, LostAnswer>) -> Void = { [self] result in
            switch result {
            case .success(.holds):
                let valid = LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: now)
                guard valid > 0 else {
                    _ = answer(.lost)
                    return
                }
                keeper.moved(lock, token: token, to: LeaseValidity.deadline(ttl: ttl, sentAt: sentAt))
                _ = answer(.renewed(validFor: valid))
            case .success(.lost), .success(.perhapsInGroup): _ = answer(.lost)
            case .failure: _ = answer(.failed)
            }
        }
        sidecar.redis.run(.renew, { $0.renew(lock.keys, token: token, ttl: ttl) }) { [self] result in
            guard case .success(.perhapsInGroup) = result else { return answered(result) }
            sidecar.redis.run(
                .shareRenew, { $0.renewShare(lock.keys, token: token, ttl: ttl) ? .holds : .lost }, completion: answered)
        }
    }

    func release(_ lock: SimulatedLock, token: String, answer: @escaping (ReleaseAnswer) -> Bool) {
        // Whatever comes of the release: from here on nobody extends the lease.
        keeper.released(lock, token: token)
        passOn(lock, token: token) { [self] result in
            // A client may release in the same breath as it acquires: then the lease is followed only after that began.
            if case .success(true) = result { keeper.released(lock, token: token) }
            switch result {
            case .success(let isReleased): _ = answer(isReleased ? .released : .lost)
            case .failure: _ = answer(.failed)
            }
        }
    }

    /// Ends the lease that `token` holds: the lock passes to the next who waits here, or in the fleet.
    func passOn(_ lock: SimulatedLock, token: String, then done: @escaping (Result<Bool, LostAnswer>) -> Void) {
        let queue = queue(lock)
        let succession = queue.flatMap { beginSuccession(in: $0, of: token) }
        let sentAt = now
        let id = sidecar.id
        var successor: LockSuccessor?
        if let queue, let succession {
            successor = LockSuccessor(
                token: succession.wish.token, ttl: succession.wish.ttl, goesOn: succession.decision.goesOn,
                ticket: queue.ticket(hasOthers: succession.decision.hasOthers, now: sentAt))
        }
        let script: (inout ModelRedis) -> ReleaseReply = { [successor] in
            $0.release(lock.keys, token: token, sidecar: id, successor: successor)
        }
        sidecar.redis.run(.release, script) { [self] result in
            // The next holder first: others wait for it in turn.
            if let queue, let succession { passed(result, from: queue, to: succession, sentAt: sentAt) }
            switch result {
            case .success(.refused(.perhapsInGroup)):
                sidecar.redis.run(
                    .shareRelease, { $0.releaseShare(lock.keys, token: token, sidecar: id) }, completion: done)
            case .success(.refused): done(.success(false))
            case .success(.passedOn): done(.success(true))
            case .success(.freed), .success(.freedForOthers):
                done(.success(true))
                // Whoever came while the release was under way.
                if succession == nil { wake(lock) }
            case .failure(let error): done(.failure(error))
            }
        }
    }

    private struct SuccessionUnderWay {
        var decision: LockQueue.Succession
        var wish: LockWish
    }

    /// The next who waits here, should it want the lock for itself alone: groups are joined by their own script.
    private func beginSuccession(in queue: LocalLockQueue, of token: String) -> SuccessionUnderWay? {
        guard let head = queue.decisions.head, let wish = waiters[head], wish.mode == .exclusive,
            var decision = queue.decisions.beginRelease()
        else { return nil }
        // Who was not served from this queue has none of its turns.
        if queue.holder != token { decision.goesOn = false }
        return SuccessionUnderWay(decision: decision, wish: wish)
    }

    private func passed(
        _ result: Result<ReleaseReply, LostAnswer>, from queue: LocalLockQueue, to succession: SuccessionUnderWay,
        sentAt: Instant
    ) {
        let wish = succession.wish
        switch result {
        case .success(.passedOn(let fence, let beginsTurn)):
            let next = queue.decisions.passedOn(succession.decision, beginsTurn: beginsTurn, ttl: wish.ttl, now: now)
            queue.holder = wish.token
            if serve(wish) {
                handOut(fence, nil, to: wish, sentAt: sentAt)
            } else if wish.standing == .left {
                giveBack(wish)
            }
            perform(next, on: queue)
            wakeSameOwner(as: wish, in: queue)
        case .success(.freedForOthers(let isFirst)):
            perform(queue.decisions.passedBy(isFirst: isFirst, now: now), on: queue)
        case .success(.freed):
            perform(queue.decisions.passedBy(isFirst: false, now: now), on: queue)
        case .success(.refused), .failure:
            if case .failure(let error) = result, error.isOutcomeUnknown { doubt(wish) }
            perform(queue.decisions.releaseFailed(), on: queue)
        }
    }

    /// Passes on what was granted to somebody who is no longer there. With an owner of its own choosing nothing is given back
    /// behind the client's back: a retry may already hold that very lease.
    func giveBack(_ wish: LockWish) {
        guard !wish.isOwners else { return }
        endLease(of: wish.lock, token: wish.token, ttl: wish.ttl)
    }

    /// Ends a lease of `ttl` milliseconds that nobody wants any more, now or as soon as Redis is back.
    func endLease(of lock: SimulatedLock, token: String, ttl: Int64) {
        let until = now.advanced(byMilliseconds: ttl)
        passOn(lock, token: token) { [self] result in
            if case .failure = result { remember(lock, token: token, until: until) }
        }
    }

    /// What unanswered calls may have left behind is freed, and every waiter tries again.
    func redisIsUp() {
        let pending = leftovers.filter { $0.until > now }
        leftovers = []
        for (lock, token, until) in pending {
            passOn(lock, token: token) { [self] result in
                if case .failure = result { remember(lock, token: token, until: until) }
            }
        }
        lookAgain()
        keeper.redisIsUp()
    }
}
