internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import Logging

/// Locks: carries out what the wait queues decide, and what callers ask. Confined to the coordinator's event loop.
final class LockCoordinator {
    typealias WaiterID = WaitQueue.WaiterID

    private struct Waiter {
        var request: LockRequest
        var token: String
        var completion: Completion<LockAnswer>
        var startedAt: Instant
        var timeout: Deadlines.Entry?
    }

    private struct Queue {
        var decisions = WaitQueue()
        var timer: Deadlines.Entry?
        /// This sidecar may have a ticket in Redis.
        var hasTicket = false
    }

    private let runtime: CoordinatorRuntime
    private let settings: LockSettings
    private var queues: [String: Queue] = [:]
    private var waiters: [WaiterID: Waiter] = [:]
    private var leases = LeaseTable()
    private var lastID: WaiterID = 0
    /// Leases that an unanswered acquire may have left behind, until they are known to be gone. Bounded.
    private var leftovers: [(name: String, token: String, until: Instant)] = []
    private static let leftoverCapacity = 10_000

    init(runtime: CoordinatorRuntime, settings: LockSettings) {
        self.runtime = runtime
        self.settings = settings
    }

    var waiting: Int { waiters.count }
    func held(now: Instant) -> Int { leases.count(now: now) }

    // MARK: Acquire

    /// Takes a lock, or waits for it. Returns an ID by which the wait can be given up.
    func acquire(_ request: LockRequest, completion: Completion<LockAnswer>) -> WaiterID {
        lastID += 1
        let id = lastID
        if let wrong = violation(in: request) {
            completion(.failed(wrong))
            return id
        }
        let name = request.name.text
        let token =
            request.owner ?? OwnerToken.make(label: request.label ?? runtime.host, random: runtime.entropy.drawPair())
        let waiter = Waiter(request: request, token: token, completion: completion, startedAt: runtime.time.now())
        let othersWait = queues[name] != nil
        switch (othersWait, request.wait > 0, request.owner != nil) {
        case (false, false, _):
            attemptOnce(waiter, mode: .take)
        case (true, false, false):
            runtime.metrics.locksHeld.increment()
            completion(.held)
        case (true, _, true):
            // Its owner may have it already; otherwise those who wait come first.
            attemptOnce(waiter, mode: .own, orWaitAs: request.wait > 0 ? id : nil)
        case (_, true, _):
            enqueue(waiter, id: id)
        }
        return id
    }

    /// Gives up a wait: the completion is not called any more, and what is granted meanwhile is given back.
    func cancel(_ id: WaiterID) {
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        waiter.timeout?.cancel()
        leave(waiter, id: id)
    }

    private func violation(in request: LockRequest) -> InterlockError? {
        let longest = settings.maximumTTL.wholeMilliseconds
        guard (LeaseValidity.shortestTTL...longest).contains(request.ttl) else {
            return InterlockError(
                .invalid, "a ttl of \(request.ttl) ms: it must be between \(LeaseValidity.shortestTTL) and \(longest) ms")
        }
        guard request.wait >= 0 else {
            return InterlockError(.invalid, "a wait of \(request.wait) ms: it must be 0 or more")
        }
        return nil
    }

    /// One try that nobody queues behind.
    private func attemptOnce(_ waiter: Waiter, mode: AcquireScript.Mode, orWaitAs id: WaiterID? = nil) {
        let request = waiter.request
        let sentAt = runtime.time.now()
        runtime.pipeline.run(
            AcquireScript(
                keys: runtime.keys, name: request.name.text, token: waiter.token, ttl: request.ttl, mode: mode)
        ) { [self] result in
            switch result {
            case .success(.granted(let fence)), .success(.extended(let fence)):
                if !deliver(fence, to: waiter, sentAt: sentAt) { giveBack(waiter) }
            case .success(.held):
                if let id { return enqueue(waiter, id: id) }
                runtime.metrics.locksHeld.increment()
                waiter.completion(.held)
            case .failure(let error):
                fail(waiter, error)
            }
        }
    }

    /// Hands the lease out, unless it is over already or its caller has left. `false`: the lease is nobody's.
    private func deliver(_ fence: Int64, to waiter: Waiter, sentAt: Instant) -> Bool {
        let now = runtime.time.now()
        let valid = LeaseValidity.remaining(ttl: waiter.request.ttl, sentAt: sentAt, now: now)
        let name = waiter.request.name.text
        guard valid > 0 else {
            fail(
                waiter,
                RedisError(.timedOut, "the lease of \(waiter.request.ttl) ms was over before it could be handed out"))
            return true
        }
        let lease = Lease(name: name, token: waiter.token, fence: fence, validMilliseconds: valid)
        guard waiter.completion(.granted(lease)) else { return false }
        runtime.metrics.locksGranted.increment()
        runtime.metrics.acquireTime.recordNanoseconds(now.nanoseconds - waiter.startedAt.nanoseconds)
        leases.granted(lease, label: waiter.request.owner == nil ? nil : waiter.request.label, now: now)
        return true
    }

    private func fail(_ waiter: Waiter, _ error: RedisError) {
        runtime.metrics.locksFailed.increment()
        waiter.completion(.failed(InterlockError(error)))
        if error.isOutcomeUnknown { giveBack(waiter) }
    }

    // MARK: Waiting

    private func enqueue(_ waiter: Waiter, id: WaiterID) {
        let now = runtime.time.now()
        let wait = min(waiter.request.wait, settings.maximumWait.wholeMilliseconds)
        let deadline = waiter.startedAt.advanced(byMilliseconds: wait)
        guard deadline > now else {
            runtime.metrics.locksHeld.increment()
            waiter.completion(.held)
            return
        }
        var waiter = waiter
        waiter.timeout = runtime.deadlines.schedule(at: deadline) { [unowned self] in timeOut(id) }
        waiters[id] = waiter
        let name = waiter.request.name.text
        perform(queues[name, default: Queue()].decisions.enqueue(.init(id: id, deadline: deadline)), on: name)
    }

    private func timeOut(_ id: WaiterID) {
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        runtime.metrics.locksHeld.increment()
        waiter.completion(.held)
        leave(waiter, id: id)
    }

    private func leave(_ waiter: Waiter, id: WaiterID) {
        let name = waiter.request.name.text
        guard let (_, next) = queues[name]?.decisions.remove(id) else { return }
        perform(next, on: name)
    }

    /// Every lock's head looks again: messages may have been lost.
    func wakeAll() {
        for name in Array(queues.keys) { wake(name) }
    }

    /// The lock may be free.
    func wake(_ name: String) {
        guard let next = queues[name]?.decisions.wake() else { return }
        perform(next, on: name)
    }

    /// Redis has been away for too long: nobody is left waiting without an answer.
    func failWaiters(_ error: RedisError) {
        let failed = waiters
        waiters = [:]
        for queue in queues.values { queue.timer?.cancel() }
        queues = [:]
        for waiter in failed.values {
            waiter.timeout?.cancel()
            runtime.metrics.locksFailed.increment()
            waiter.completion(.failed(InterlockError(error)))
            remember(waiter)
        }
    }

    private func perform(_ action: WaitQueue.Action, on name: String) {
        switch action {
        case .none:
            break
        case .drop:
            queues.removeValue(forKey: name)?.timer?.cancel()
        case .armTimer(let instant):
            queues[name]?.timer?.cancel()
            queues[name]?.timer = runtime.deadlines.schedule(at: instant) { [unowned self] in
                guard let next = queues[name]?.decisions.timerFired() else { return }
                perform(next, on: name)
            }
        case .attempt(let id):
            attempt(id, on: name)
        }
    }

    private func attempt(_ id: WaiterID, on name: String) {
        guard let waiter = waiters[id], let queue = queues[name] else { return }
        queue.timer?.cancel()
        let sentAt = runtime.time.now()
        let ticket = max(1, queue.decisions.latestDeadline.millisecondsRoundedUp(since: sentAt))
        let script = AcquireScript(
            keys: runtime.keys, name: name, token: waiter.token, ttl: waiter.request.ttl, mode: .take,
            ticket: AcquireScript.Ticket(
                sidecar: runtime.id, millisecondsWhenHeld: ticket,
                millisecondsWhenGranted: queue.decisions.count > 1 ? ticket : queue.hasTicket ? 0 : -1))
        queues[name]?.hasTicket = true
        runtime.pipeline.run(script) { [self] result in
            attempted(id, waiter, result, sentAt: sentAt)
        }
    }

    private func attempted(
        _ id: WaiterID, _ waiter: Waiter, _ result: Result<AcquireScript.Reply, RedisError>, sentAt: Instant
    ) {
        let name = waiter.request.name.text
        switch result {
        case .success(.granted(let fence)), .success(.extended(let fence)):
            guard let (grant, next) = queues[name]?.decisions.granted(id) else { return giveBack(waiter) }
            let known = waiters.removeValue(forKey: id)
            known?.timeout?.cancel()
            let isDelivered = grant == .deliver && known != nil && deliver(fence, to: waiter, sentAt: sentAt)
            perform(next, on: name)
            restQueue(name, ttl: waiter.request.ttl)
            if !isDelivered { giveBack(waiter) }
        case .success(.held(let ttl)):
            guard let next = queues[name]?.decisions.refused(id, ttl: ttl, now: runtime.time.now()) else { return }
            perform(next, on: name)
        case .failure(let error) where error.code == .notConnected || error.code == .answerLost:
            // The same token tries again once Redis is back: if this attempt had won, that one finds it.
            if waiters[id] == nil, error.isOutcomeUnknown { remember(waiter) }
            guard let next = queues[name]?.decisions.unanswered(id, now: runtime.time.now()) else { return }
            perform(next, on: name)
        case .failure(let error):
            waiters.removeValue(forKey: id)?.timeout?.cancel()
            fail(waiter, error)
            guard let next = queues[name]?.decisions.failed(id) else { return }
            perform(next, on: name)
        }
    }

    private func restQueue(_ name: String, ttl: Int64?) {
        guard let next = queues[name]?.decisions.rest(ttl: ttl, now: runtime.time.now()) else { return }
        perform(next, on: name)
    }

    // MARK: Giving back

    /// Frees what was granted to somebody who is no longer there. With an owner of its own choosing nothing is given back
    /// behind the client's back: a retry may already hold that very lease.
    private func giveBack(_ waiter: Waiter) {
        guard waiter.request.owner == nil else { return }
        let name = waiter.request.name.text
        runtime.pipeline.run(releaseScript(name: name, token: waiter.token)) { [self] result in
            switch result {
            case .success(true): wake(name)
            case .success(false): break
            case .failure: remember(waiter)
            }
        }
    }

    private func remember(_ waiter: Waiter) {
        guard waiter.request.owner == nil, leftovers.count < Self.leftoverCapacity else { return }
        let until = runtime.time.now().advanced(byMilliseconds: waiter.request.ttl)
        leftovers.append((waiter.request.name.text, waiter.token, until))
    }

    /// Redis is back: what unanswered calls may have left behind is freed, and every waiter tries again.
    func redisIsBack() {
        let now = runtime.time.now()
        let pending = leftovers.filter { $0.until > now }
        leftovers = []
        for (name, token, until) in pending {
            runtime.pipeline.run(releaseScript(name: name, token: token)) { [self] result in
                if case .failure = result { leftovers.append((name, token, until)) }
            }
        }
        wakeAll()
    }

    // MARK: Renew, release, break

    func renew(name: ResourceName, token: String, ttl: Int64, completion: Completion<RenewAnswer>) {
        if let wrong = violation(in: LockRequest(name: name, ttl: ttl)) {
            completion(.failed(wrong))
            return
        }
        let sentAt = runtime.time.now()
        runtime.pipeline.run(RenewScript(keys: runtime.keys, name: name.text, token: token, ttl: ttl)) { [self] result in
            switch result {
            case .success(true):
                let now = runtime.time.now()
                let valid = LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: now)
                guard valid > 0 else {
                    completion(.lost)
                    return
                }
                leases.renewed(name.text, token: token, deadline: LeaseValidity.deadline(ttl: ttl, sentAt: sentAt))
                completion(.renewed(validMilliseconds: valid))
            case .success(false):
                leases.ended(name.text, token: token)
                completion(.lost)
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }

    func release(name: ResourceName, token: String, completion: Completion<ReleaseAnswer>) {
        runtime.pipeline.run(releaseScript(name: name.text, token: token)) { [self] result in
            switch result {
            case .success(let isReleased):
                (isReleased ? runtime.metrics.locksReleased : runtime.metrics.releasesLost).increment()
                leases.ended(name.text, token: token)
                completion(isReleased ? .released : .lost)
                if isReleased { wake(name.text) }
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }

    func breakLock(name: ResourceName, by: String, completion: Completion<ReleaseAnswer>) {
        let script = BreakScript(
            keys: runtime.keys, name: name.text, by: by, origin: runtime.id, database: runtime.database)
        runtime.pipeline.run(script) { [self] result in
            switch result {
            case .success(let isBroken):
                if isBroken {
                    leases.broken(name.text)
                    runtime.logger.notice("A lock was broken", metadata: ["lock": "\(name)", "by": "\(by)"])
                }
                completion(isBroken ? .released : .lost)
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }

    private func releaseScript(name: String, token: String) -> ReleaseScript {
        ReleaseScript(keys: runtime.keys, name: name, token: token, sidecar: runtime.id, database: runtime.database)
    }

    // MARK: Looking

    func inspect(name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>) {
        runtime.pipeline.run(InspectScript(keys: runtime.keys, name: name.text, sidecar: runtime.id)) { [self] result in
            switch result {
            case .success(let reply):
                let waiters = (queues[name.text]?.decisions.count ?? 0) + reply.otherSidecars
                guard reply.token != nil || waiters > 0 else {
                    completion(.success(nil))
                    return
                }
                let label = reply.token.map { leases.label(of: name.text, token: $0) ?? OwnerToken.label(of: $0) }
                completion(
                    .success(
                        LockInformation(
                            name: name.text, label: label, fence: reply.fence,
                            ttlMilliseconds: reply.token == nil ? 0 : reply.ttl, waiters: waiters)))
            case .failure(let error):
                completion(.failure(InterlockError(error)))
            }
        }
    }

    /// One `SCAN` step: bounded in time by `count`, 1…1000.
    func list(cursor: String, glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>) {
        let scan = Scan(cursor: cursor, pattern: runtime.keys.lockPattern(matching: glob), count: count, type: "string")
        runtime.pipeline.send(scan) { [self] result in
            switch result {
            case .success(let (next, keys)):
                completion(
                    .success(LockPage(cursor: next, names: keys.compactMap { runtime.keys.lockName(ofKey: $0) })))
            case .failure(let error):
                completion(.failure(InterlockError(error)))
            }
        }
    }
}
