internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Acquires and holds locks on a majority of independent Redis servers. Confined to the coordinator's event loop.
///
/// The calls are those of `LockCoordinator`. Other sidecars do not wake the waiters, which retry after random pauses.
final class QuorumLocks: LockProvider {
    typealias WaiterID = QuorumQueue.WaiterID

    private struct Waiter {
        var request: LockRequest
        var completion: Completion<LockResult>
        var startedAt: Instant
        var deadline: Instant
        var timeout: Deadlines.Entry?
        /// Whether the wait has ended while an attempt is in progress. The attempt then decides the outcome.
        var isOverdue = false
    }

    /// The key under which concurrent calls of one owner share an attempt.
    private struct CallKey: Hashable {
        var name: ExactText
        var owner: ExactText
        var ttlMilliseconds: Int64
        /// The kind of attempt; `nil` if the call waits in the queue.
        var candidate: QuorumAcquireScript.Candidate?

        init(_ request: LockRequest, owner: String, _ candidate: QuorumAcquireScript.Candidate? = nil) {
            name = ExactText(request.name.text)
            self.owner = ExactText(owner)
            ttlMilliseconds = request.ttlMilliseconds
            self.candidate = candidate
        }
    }

    private struct WaitQueue {
        var machine = QuorumQueue()
        var timer: Deadlines.Entry?
        /// The time of the first in a series of attempts that no majority answered; `nil` if a majority answered the
        /// last attempt.
        var unavailableSince: Instant?
    }

    /// The maximum number of waiters. Further calls that would wait fail.
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
    private var lastWaiterID: WaiterID = 0
    var nextReview: Deadlines.Entry?

    /// Creates the locks, inactive until `start`.
    init(runtime: CoordinatorRuntime, settings: LockSettings, scripts: LockScripts, servers: [RedisConfiguration]) {
        self.runtime = runtime
        self.settings = settings
        self.scripts = scripts
        self.servers = QuorumServers(runtime: runtime, configurations: servers)
    }

    var waitingCount: Int { waiters.count }
    func heldLeaseCount(now: Instant) -> Int { leases.count(now: now) }
    var history: GrantHistory { leases.history }
    var commandsSent: Int64 { servers.commandsSent }
    /// Returns whether too many servers have a backlog of replies for a majority to answer soon.
    func isBusy(from pendingCount: Int) -> Bool { servers.isBusy(from: pendingCount) }
    /// Whether a majority of the servers is connected.
    var isReachable: Bool { servers.reachableCount >= servers.majority }
    func waiterCount(for name: String) -> Int { queues[ExactText(name)]?.machine.count ?? 0 }

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
        lastWaiterID += 1
        let id = lastWaiterID
        if let violation = settings.violation(in: request) {
            completion(.failed(violation))
            return id
        }
        let now = runtime.time.now()
        let waitMilliseconds = min(request.waitMilliseconds, settings.maximumWait.wholeMilliseconds)
        let waiter = Waiter(
            request: request, completion: completion, startedAt: now,
            deadline: now.advanced(byMilliseconds: waitMilliseconds))
        let hasWaiters = queues[ExactText(request.name.text)] != nil
        switch (hasWaiters, waitMilliseconds > 0, request.owner != nil) {
        case (false, false, _):
            attemptOnce(waiter, id: id, .anyCaller, mayWait: false)
        case (true, false, false):
            refuse(waiter)
        case (true, _, true):
            // The owner may hold the lock already. If not, those already waiting go first.
            attemptOnce(waiter, id: id, .currentOwner, mayWait: waitMilliseconds > 0)
        case (_, true, _):
            enqueue(waiter, id: id)
        }
        return id
    }

    /// Cancels a wait. The completion is not called, and a grant that arrives later is released.
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
            let callIDs = key.map { sharedAttempts.removeValue(forKey: $0) ?? [] } ?? [id]
            var isDelivered = false
            for id in callIDs {
                guard let waiter = attempting.removeValue(forKey: id) else { continue }
                switch outcome {
                case .granted(let fence, let validMilliseconds):
                    isDelivered =
                        deliver(fence, validMilliseconds: validMilliseconds, to: waiter, by: attempt) || isDelivered
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
            let retryAt = QuorumRetry.nextAttempt(
                after: now, took: now.nanoseconds - startedAt.nanoseconds, attempts: attempts,
                random: .random(in: 0...1, using: &runtime.entropy))
            runtime.deadlines.schedule(at: retryAt) { [unowned self] in
                // Calls that have started to wait in the meantime go first.
                let mayContinue = isWanted() && queues[ExactText(waiter.request.name.text)] == nil
                guard mayContinue || candidate == .currentOwner else { return completion(attempt, .held) }
                attemptOnce(
                    waiter, candidate, mayRetry: true, attempts: attempts + 1, isWanted: isWanted, completion: completion)
            }
        }
    }

    /// Starts an attempt. Unless the owner chose the token, each attempt has its own token, so the cleanup of one
    /// attempt never ends the grant of another.
    private func attempt(
        _ waiter: Waiter, _ candidate: QuorumAcquireScript.Candidate,
        completion: @escaping (QuorumAttempt, QuorumAttempt.Outcome) -> Void
    ) {
        let request = QuorumAttempt.Request(
            name: waiter.request.name.text, token: runtime.token(for: waiter.request),
            ttlMilliseconds: waiter.request.ttlMilliseconds,
            hasOwnerToken: waiter.request.owner != nil, candidate: candidate)
        QuorumAttempt(request, servers: servers, scripts: scripts, runtime: runtime, completion: completion).start()
    }

    /// Hands out the lease. Returns `false` if the caller has left, so that the lease has no holder.
    private func deliver(
        _ fence: Int64, validMilliseconds: Int64, to waiter: Waiter, by attempt: QuorumAttempt
    ) -> Bool {
        let now = runtime.time.now()
        let lease = Lease(
            name: waiter.request.name.text, token: attempt.request.token, fence: fence,
            validMilliseconds: validMilliseconds, ttlMilliseconds: waiter.request.ttlMilliseconds,
            deadline: now.advanced(byMilliseconds: validMilliseconds),
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
        perform(queues[ExactText(name), default: WaitQueue()].machine.enqueue(id), on: name)
    }

    /// Ends a wait whose deadline has passed. If an attempt is in progress for this waiter or for another copy of its
    /// call, that attempt decides the outcome, in bounded time.
    private func timeOut(_ id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        let queue = queues[ExactText(waiter.request.name.text)]
        guard ([id] + copyIDs(of: waiter, id)).contains(where: { queue?.machine.isAttempting($0) == true }) else {
            return giveUp(id, because: nil)
        }
        waiters[id]?.isOverdue = true
    }

    /// Ends the overdue waits of this waiter and of the other copies of its call, because an attempt was not granted.
    private func endOverdueWaits(_ waiter: Waiter, _ id: WaiterID, because error: InterlockError?) {
        for overdueID in copyIDs(of: waiter, id) + [id] where waiters[overdueID]?.isOverdue == true {
            giveUp(overdueID, because: error)
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
        guard let nextAction = queues[ExactText(name)]?.machine.remove(id) else { return }
        perform(nextAction, on: name)
    }

    /// Retries at the head of the queue, because the lock may be free.
    func wake(_ name: String) {
        guard let nextAction = queues[ExactText(name)]?.machine.wake() else { return }
        perform(nextAction, on: name)
    }

    /// Fails all waiters. Attempts in progress continue, and their grants are released.
    func failWaiters(_ error: InterlockError) {
        let failedWaiters = (Array(waiters) + Array(attempting)).sorted { $0.key < $1.key }
        waiters = [:]
        attempting = [:]
        for queue in queues.values { queue.timer?.cancel() }
        queues = [:]
        for (_, waiter) in failedWaiters {
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
        let retryAt = QuorumRetry.nextAttempt(
            after: runtime.time.now(), deadline: waiter.deadline, random: .random(in: 0...1, using: &runtime.entropy))
        guard let retryAt else { return }
        let timer = runtime.deadlines.schedule(at: retryAt) { [unowned self] in
            guard let nextAction = queues[ExactText(name)]?.machine.timerFired() else { return }
            perform(nextAction, on: name)
        }
        queues[ExactText(name)]?.timer = timer
    }

    private func attempt(_ id: WaiterID, on name: String) {
        guard let waiter = waiters[id] else { return }
        queues[ExactText(name)]?.timer?.cancel()
        attempt(waiter, .anyCaller) { [self] attempt, outcome in
            switch outcome {
            case .granted(let fence, let validMilliseconds):
                attemptGranted(fence, validMilliseconds: validMilliseconds, id, waiter, by: attempt)
            case .held, .contended:
                queues[ExactText(name)]?.unavailableSince = nil
                endOverdueWaits(waiter, id, because: nil)
                guard let nextAction = queues[ExactText(name)]?.machine.attemptRefused(id) else { return }
                perform(nextAction, on: name)
            case .unavailable(let error):
                endOverdueWaits(waiter, id, because: error)
                majorityUnavailable(error, id, on: name)
            }
        }
    }

    private func attemptGranted(
        _ fence: Int64, validMilliseconds: Int64, _ id: WaiterID, _ waiter: Waiter, by attempt: QuorumAttempt
    ) {
        let name = waiter.request.name.text
        queues[ExactText(name)]?.unavailableSince = nil
        // The other copies of the call share its grant. They are removed while the attempt still counts as in progress,
        // so that none of them starts another.
        var copies: [Waiter] = []
        let isAttempting = queues[ExactText(name)]?.machine.isAttempting(id) == true
        for copyID in isAttempting ? copyIDs(of: waiter, id) : [] {
            guard let copy = waiters.removeValue(forKey: copyID) else { continue }
            copy.timeout?.cancel()
            _ = queues[ExactText(name)]?.machine.remove(copyID)
            copies.append(copy)
        }
        guard let (isWanted, nextAction) = queues[ExactText(name)]?.machine.attemptGranted(id) else {
            return attempt.abandon()
        }
        if isWanted { waiters.removeValue(forKey: id)?.timeout?.cancel() }
        var isDelivered =
            isWanted && deliver(fence, validMilliseconds: validMilliseconds, to: waiter, by: attempt)
        for copy in copies {
            isDelivered = deliver(fence, validMilliseconds: validMilliseconds, to: copy, by: attempt) || isDelivered
        }
        perform(nextAction, on: name)
        guard !isDelivered else { return }
        // The waiter has left. Release the lease first, so that the next local attempt finds the lock free.
        attempt.abandon()
        endOverdueWaits(waiter, id, because: nil)
        wake(name)
    }

    /// Returns the IDs of the other waiters with the same owner and the same request. O(waiters).
    private func copyIDs(of waiter: Waiter, _ id: WaiterID) -> [WaiterID] {
        guard let owner = waiter.request.owner, let queue = queues[ExactText(waiter.request.name.text)] else { return [] }
        let key = CallKey(waiter.request, owner: owner)
        return queue.machine.all.filter { otherID in
            otherID != id
                && waiters[otherID].map { other in
                    other.request.owner.map { CallKey(other.request, owner: $0) } == key
                } ?? false
        }
    }

    /// Retries an attempt that no majority answered. Fails the waiter once that has lasted for `redis.timeout`.
    private func majorityUnavailable(_ error: InterlockError, _ id: WaiterID, on name: String) {
        guard let queue = queues[ExactText(name)] else { return }
        let now = runtime.time.now()
        let since = queue.unavailableSince ?? now
        queues[ExactText(name)]?.unavailableSince = since
        let nextAction: QuorumQueue.Action?
        if now < since.advanced(byMilliseconds: runtime.timeoutMilliseconds) {
            nextAction = queues[ExactText(name)]?.machine.attemptRefused(id)
        } else {
            if let waiter = waiters.removeValue(forKey: id) {
                waiter.timeout?.cancel()
                fail(waiter, error)
            }
            nextAction = queues[ExactText(name)]?.machine.attemptFailed(id)
        }
        if let nextAction { perform(nextAction, on: name) }
    }
}
