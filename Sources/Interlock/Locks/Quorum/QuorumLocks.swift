internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Acquires and holds locks on a majority of independent Redis servers. Confined to the coordinator's event loop.
///
/// The calls are those of `LockCoordinator`. Waiters are not woken by other sidecars; they retry after random pauses.
final class QuorumLocks: LockProvider {
    typealias WaiterID = QuorumQueue.WaiterID

    private struct Waiter {
        var request: LockRequest
        var completion: Completion<LockResult>
        var startedAt: Instant
        var deadline: Instant
        var timeout: Deadlines.Entry?
        /// Whether its wait has ended while an attempt is in progress, which then decides the answer.
        var isOverdue = false
    }

    /// The key under which concurrent calls of one owner share an attempt.
    private struct CallKey: Hashable {
        var name: ExactText
        var owner: ExactText
        var ttl: Int64
        /// The kind of attempt; `nil` if the call waits in the queue.
        var candidate: QuorumAcquireScript.Candidate?

        init(_ request: LockRequest, owner: String, _ candidate: QuorumAcquireScript.Candidate? = nil) {
            name = ExactText(request.name.text)
            self.owner = ExactText(owner)
            ttl = request.ttl
            self.candidate = candidate
        }
    }

    private struct WaitQueue {
        var decisions = QuorumQueue()
        var timer: Deadlines.Entry?
        /// The time of the first attempt in a row that no majority has answered; `nil` if a majority answered the last
        /// one.
        var unavailableSince: Instant?
    }

    /// The maximum number of waiters; further ones are refused.
    private static let waiterCapacity = 100_000

    let runtime: CoordinatorRuntime
    let settings: LockSettings
    let servers: QuorumServers
    let scripts: LockScripts
    var leases = LeaseTable()
    private var queues: [ExactText: WaitQueue] = [:]
    /// The calls that make an attempt before they wait, or that do not wait.
    private var attempting: [WaiterID: Waiter] = [:]
    /// The IDs of the calls in `attempting` that share an attempt.
    private var sharedAttempts: [CallKey: [WaiterID]] = [:]
    private var waiters: [WaiterID: Waiter] = [:]
    private var lastID: WaiterID = 0
    var nextReview: Deadlines.Entry?

    /// Creates the locks, inactive until `start`.
    init(runtime: CoordinatorRuntime, settings: LockSettings, scripts: LockScripts, servers: [RedisConfiguration]) {
        self.runtime = runtime
        self.settings = settings
        self.scripts = scripts
        self.servers = QuorumServers(runtime: runtime, configurations: servers)
    }

    var waiting: Int { waiters.count }
    func heldLeaseCount(now: Instant) -> Int { leases.count(now: now) }
    var history: GrantHistory { leases.history }
    var commandsSent: Int64 { servers.commandsSent }
    /// Returns whether so many servers have a backlog of replies that no majority will answer soon.
    func isBusy(from pendingCount: Int) -> Bool { servers.isBusy(from: pendingCount) }
    /// Whether a majority of the servers is connected.
    var isReachable: Bool { servers.reachable >= servers.majority }
    func waiting(for name: String) -> Int { queues[ExactText(name)]?.decisions.count ?? 0 }

    // MARK: Lifecycle

    /// Starts connecting.
    func start() {
        servers.start()
    }

    /// Fails all waiters, because the sidecar is shutting down.
    func drain() {
        failWaiters(.shuttingDown)
    }

    /// Disconnects permanently.
    func close() -> EventLoopFuture<Void> {
        servers.close()
    }

    // MARK: Acquire

    /// Acquires a lock, or waits for it. Returns an ID that `cancel` takes.
    func acquire(_ request: LockRequest, completion: Completion<LockResult>) -> WaiterID {
        lastID += 1
        let id = lastID
        if let violation = settings.violation(in: request) {
            completion(.failed(violation))
            return id
        }
        let now = runtime.time.now()
        let wait = min(request.wait, settings.maximumWait.wholeMilliseconds)
        let waiter = Waiter(
            request: request, completion: completion, startedAt: now, deadline: now.advanced(byMilliseconds: wait))
        let hasWaiters = queues[ExactText(request.name.text)] != nil
        switch (hasWaiters, wait > 0, request.owner != nil) {
        case (false, false, _):
            attemptOnce(waiter, id: id, .anyCaller, mayWait: false)
        case (true, false, false):
            refuse(waiter)
        case (true, _, true):
            // The owner may hold the lock already. If not, those already waiting go first.
            attemptOnce(waiter, id: id, .currentOwner, mayWait: wait > 0)
        case (_, true, _):
            enqueue(waiter, id: id)
        }
        return id
    }

    /// Cancels a wait. The completion is no longer called, and a grant that arrives later is released.
    func cancel(_ id: WaiterID) {
        attempting[id] = nil
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        waiter.timeout?.cancel()
        leave(waiter, id: id)
    }

    /// Makes an attempt outside the queue. If concurrent attempts collide and none wins, each is retried a few times. A
    /// concurrent call with the same owner joins the attempt and gets the same answer.
    private func attemptOnce(
        _ waiter: Waiter, id: WaiterID, _ candidate: QuorumAcquireScript.Candidate, mayWait: Bool
    ) {
        attempting[id] = waiter
        let key = mayWait ? nil : waiter.request.owner.map { CallKey(waiter.request, owner: $0, candidate) }
        if let key {
            if sharedAttempts[key] != nil {
                sharedAttempts[key]?.append(id)
                return
            }
            sharedAttempts[key] = [id]
        }
        /// Calls that were cancelled or answered are no longer in `attempting`.
        func isWanted() -> Bool { (key.flatMap { sharedAttempts[$0] } ?? [id]).contains { attempting[$0] != nil } }
        attemptOnce(waiter, candidate, mayRetry: !mayWait, attempts: 1, isWanted: isWanted) { [self] attempt, outcome in
            let calls = key.map { sharedAttempts.removeValue(forKey: $0) ?? [] } ?? [id]
            var isDelivered = false
            for id in calls {
                guard let waiter = attempting.removeValue(forKey: id) else { continue }
                switch outcome {
                case .granted(let fence, let valid):
                    isDelivered = deliver(fence, valid: valid, to: waiter, by: attempt) || isDelivered
                case .held, .contended:
                    if mayWait { enqueue(waiter, id: id) } else { refuse(waiter) }
                case .unavailable(let error):
                    fail(waiter, error)
                }
            }
            if case .granted = outcome, !isDelivered { attempt.abandon() }
        }
    }

    private func attemptOnce(
        _ waiter: Waiter, _ candidate: QuorumAcquireScript.Candidate, mayRetry: Bool, attempts: Int,
        isWanted: @escaping () -> Bool, completion: @escaping (QuorumAttempt, QuorumAttempt.Outcome) -> Void
    ) {
        let startedAt = runtime.time.now()
        attempt(waiter, candidate) { [self] attempt, outcome in
            guard case .contended = outcome, mayRetry, attempts < QuorumRetry.maximumAttempts else {
                return completion(attempt, outcome)
            }
            let now = runtime.time.now()
            let next = QuorumRetry.nextAttempt(
                after: now, took: now.nanoseconds - startedAt.nanoseconds, attempts: attempts,
                random: .random(in: 0...1, using: &runtime.entropy))
            runtime.deadlines.schedule(at: next) { [unowned self] in
                // Calls that have started to wait in the meantime go first.
                let mayContinue = isWanted() && queues[ExactText(waiter.request.name.text)] == nil
                guard mayContinue || candidate == .currentOwner else { return completion(attempt, .held) }
                attemptOnce(
                    waiter, candidate, mayRetry: true, attempts: attempts + 1, isWanted: isWanted, completion: completion)
            }
        }
    }

    /// Starts an attempt. Unless the owner chose the token, each attempt has its own, so the cleanup of one attempt
    /// never ends the grant of another.
    private func attempt(
        _ waiter: Waiter, _ candidate: QuorumAcquireScript.Candidate,
        completion: @escaping (QuorumAttempt, QuorumAttempt.Outcome) -> Void
    ) {
        let request = QuorumAttempt.Request(
            name: waiter.request.name.text, token: runtime.token(for: waiter.request), ttl: waiter.request.ttl,
            hasOwnerToken: waiter.request.owner != nil, candidate: candidate)
        QuorumAttempt(request, servers: servers, scripts: scripts, runtime: runtime, completion: completion).start()
    }

    /// Hands out the lease. Returns `false` if the caller has left, so that the lease has no holder.
    private func deliver(_ fence: Int64, valid: Int64, to waiter: Waiter, by attempt: QuorumAttempt) -> Bool {
        let now = runtime.time.now()
        let lease = Lease(
            name: waiter.request.name.text, token: attempt.request.token, fence: fence, validMilliseconds: valid,
            ttlMilliseconds: waiter.request.ttl, deadline: now.advanced(byMilliseconds: valid),
            hasOwnerToken: waiter.request.owner != nil)
        guard waiter.completion(.granted(lease)) else { return false }
        runtime.metrics.locksGranted.increment()
        runtime.metrics.acquireTime.recordNanoseconds(now.nanoseconds - waiter.startedAt.nanoseconds)
        leases.recordGrant(lease, to: waiter.request, startedAt: waiter.startedAt, now: now, host: runtime.host)
        scheduleReview()
        return true
    }

    private func refuse(_ waiter: Waiter) {
        runtime.metrics.locksRefused.increment()
        waiter.completion(.held)
    }

    private func fail(_ waiter: Waiter, _ error: InterlockError) {
        runtime.metrics.locksFailed.increment()
        waiter.completion(.failed(error))
    }

    // MARK: Waiting

    private func enqueue(_ waiter: Waiter, id: WaiterID) {
        guard waiter.deadline > runtime.time.now() else { return refuse(waiter) }
        guard waiters.count < Self.waiterCapacity else {
            return fail(waiter, InterlockError(.unavailable, "\(waiters.count) callers already wait for locks; try again later"))
        }
        var waiter = waiter
        waiter.timeout = runtime.deadlines.schedule(at: waiter.deadline) { [unowned self] in timeOut(id) }
        waiters[id] = waiter
        let name = waiter.request.name.text
        perform(queues[ExactText(name), default: WaitQueue()].decisions.enqueue(id), on: name)
    }

    /// Ends a wait whose deadline has passed. If an attempt is in progress for this waiter or for another copy of its
    /// call, it decides the outcome; it takes a bounded time.
    private func timeOut(_ id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        let queue = queues[ExactText(waiter.request.name.text)]
        guard ([id] + copies(of: waiter, id)).contains(where: { queue?.decisions.isAttempting($0) == true }) else {
            return giveUp(id, because: nil)
        }
        waiters[id]?.isOverdue = true
    }

    /// Ends the overdue waits of this waiter and of the other copies of its call after an attempt was not granted.
    private func endOverdueWaits(_ waiter: Waiter, _ id: WaiterID, because error: InterlockError?) {
        for overdue in copies(of: waiter, id) + [id] where waiters[overdue]?.isOverdue == true {
            giveUp(overdue, because: error)
        }
    }

    /// Ends a wait without a grant.
    /// - Parameter error: the reason why the state of the lock is unknown; `nil` if the lock is held.
    private func giveUp(_ id: WaiterID, because error: InterlockError?) {
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        if let error { fail(waiter, error) } else { refuse(waiter) }
        leave(waiter, id: id)
    }

    private func leave(_ waiter: Waiter, id: WaiterID) {
        let name = waiter.request.name.text
        guard let next = queues[ExactText(name)]?.decisions.remove(id) else { return }
        perform(next, on: name)
    }

    /// Retries at the head of the queue, because the lock may be free.
    func wake(_ name: String) {
        guard let next = queues[ExactText(name)]?.decisions.wake() else { return }
        perform(next, on: name)
    }

    /// Fails all waiters. Attempts in progress are completed, and their grants are released.
    func failWaiters(_ error: InterlockError) {
        let failed = (Array(waiters) + Array(attempting)).sorted { $0.key < $1.key }
        waiters = [:]
        attempting = [:]
        for queue in queues.values { queue.timer?.cancel() }
        queues = [:]
        for (_, waiter) in failed {
            waiter.timeout?.cancel()
            fail(waiter, error)
        }
    }

    private func perform(_ action: QuorumQueue.Action, on name: String) {
        switch action {
        case .none:
            break
        case .drop:
            queues.removeValue(forKey: ExactText(name))?.timer?.cancel()
        case .pause(let id):
            pause(id, on: name)
        case .attempt(let id):
            attempt(id, on: name)
        }
    }

    private func pause(_ id: WaiterID, on name: String) {
        queues[ExactText(name)]?.timer?.cancel()
        queues[ExactText(name)]?.timer = nil
        guard let waiter = waiters[id] else { return }
        let next = QuorumRetry.nextAttempt(
            after: runtime.time.now(), deadline: waiter.deadline, random: .random(in: 0...1, using: &runtime.entropy))
        guard let next else { return }
        let timer = runtime.deadlines.schedule(at: next) { [unowned self] in
            guard let next = queues[ExactText(name)]?.decisions.timerFired() else { return }
            perform(next, on: name)
        }
        queues[ExactText(name)]?.timer = timer
    }

    private func attempt(_ id: WaiterID, on name: String) {
        guard let waiter = waiters[id] else { return }
        queues[ExactText(name)]?.timer?.cancel()
        attempt(waiter, .anyCaller) { [self] attempt, outcome in
            switch outcome {
            case .granted(let fence, let valid):
                granted(fence, valid: valid, id, waiter, by: attempt)
            case .held, .contended:
                queues[ExactText(name)]?.unavailableSince = nil
                endOverdueWaits(waiter, id, because: nil)
                guard let next = queues[ExactText(name)]?.decisions.refused(id) else { return }
                perform(next, on: name)
            case .unavailable(let error):
                endOverdueWaits(waiter, id, because: error)
                unavailable(error, id, on: name)
            }
        }
    }

    private func granted(_ fence: Int64, valid: Int64, _ id: WaiterID, _ waiter: Waiter, by attempt: QuorumAttempt) {
        let name = waiter.request.name.text
        queues[ExactText(name)]?.unavailableSince = nil
        // The other copies of the call share its grant. They are removed while the attempt still counts as in progress,
        // so that none of them starts another.
        var copies: [Waiter] = []
        for other in queues[ExactText(name)]?.decisions.isAttempting(id) == true ? self.copies(of: waiter, id) : [] {
            guard let copy = waiters.removeValue(forKey: other) else { continue }
            copy.timeout?.cancel()
            _ = queues[ExactText(name)]?.decisions.remove(other)
            copies.append(copy)
        }
        guard let (isWanted, next) = queues[ExactText(name)]?.decisions.granted(id) else { return attempt.abandon() }
        if isWanted { waiters.removeValue(forKey: id)?.timeout?.cancel() }
        var isDelivered = isWanted && deliver(fence, valid: valid, to: waiter, by: attempt)
        for copy in copies { isDelivered = deliver(fence, valid: valid, to: copy, by: attempt) || isDelivered }
        perform(next, on: name)
        guard !isDelivered else { return }
        // The waiter has left. The lease is released first, so that the next local attempt finds the lock free.
        attempt.abandon()
        endOverdueWaits(waiter, id, because: nil)
        wake(name)
    }

    /// Returns the other waiters with the same owner and the same request. O(waiters) for a grant to an owner.
    private func copies(of waiter: Waiter, _ id: WaiterID) -> [WaiterID] {
        guard let owner = waiter.request.owner, let queue = queues[ExactText(waiter.request.name.text)] else { return [] }
        let key = CallKey(waiter.request, owner: owner)
        return queue.decisions.all.filter { other in
            other != id
                && waiters[other].map { other in other.request.owner.map { CallKey(other.request, owner: $0) } == key }
                    ?? false
        }
    }

    /// Retries, but fails the waiter when the outage has lasted for `redis.timeout`.
    private func unavailable(_ error: InterlockError, _ id: WaiterID, on name: String) {
        guard let queue = queues[ExactText(name)] else { return }
        let now = runtime.time.now()
        let since = queue.unavailableSince ?? now
        queues[ExactText(name)]?.unavailableSince = since
        let next: QuorumQueue.Action?
        if now < since.advanced(byMilliseconds: runtime.timeoutMilliseconds) {
            next = queues[ExactText(name)]?.decisions.refused(id)
        } else {
            if let waiter = waiters.removeValue(forKey: id) {
                waiter.timeout?.cancel()
                fail(waiter, error)
            }
            next = queues[ExactText(name)]?.decisions.failed(id)
        }
        if let next { perform(next, on: name) }
    }
}
