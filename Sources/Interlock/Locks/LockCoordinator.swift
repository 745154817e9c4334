internal import CoreMetrics
internal import InterlockCore
internal import Logging
internal import RedisClient

/// Executes the decisions of the lock queues and the requests of callers. Confined to the coordinator's event loop.
final class LockCoordinator {
    typealias WaiterID = LockQueue.WaiterID

    let runtime: CoordinatorRuntime
    let settings: LockSettings
    /// The connection on which locks are granted. If grants wait for replicas, it is dedicated to that, and other
    /// commands of holders use the runtime's connection.
    let pipeline: any RedisSender
    private let replication: ReplicaWait
    let watch: KeyWatch
    let followedLeases: FollowedLeaseRegistry
    let wakeChannels: WakeChannels
    private let counts: WaiterCounts
    private let scripts: LockScripts
    private var queues: [ExactText: LocalQueue] = [:]
    private var lastQueueNumber: UInt64 = 0
    private(set) var waiters: [WaiterID: LockWaiter] = [:]
    /// Waiters that make one attempt before they join the queue.
    private var attempting: [WaiterID: LockWaiter] = [:]
    var leases = LeaseTable()
    private var lastID: WaiterID = 0
    var pendingInspections: [UInt64: PendingInspection] = [:]
    var lastInspectionID: UInt64 = 0
    var isShuttingDown = false
    /// The sidecars that did not report their waiters, each with the end of the period in which no inspection waits for
    /// it. Bounded.
    var unresponsiveSidecars: [String: Instant] = [:]
    /// Leases that an unanswered acquire may have left behind, until their end is confirmed. Bounded.
    var leftovers: [(name: String, token: String, until: Instant)] = []
    static let leftoverCapacity = 10_000
    /// The timer of the next cleanup attempt. It is brought forward when Redis is back.
    var leftoverRetry: Deadlines.Entry?
    var nextReview: Deadlines.Entry?
    /// The semaphores and requested sizes that were already logged as differing. Bounded.
    var loggedSizeMismatches: Set<String> = []

    init(
        runtime: CoordinatorRuntime, settings: LockSettings, scripts: LockScripts, pipeline: any RedisSender, watch: KeyWatch
    ) {
        self.runtime = runtime
        self.settings = settings
        self.scripts = scripts
        self.pipeline = pipeline
        replication = ReplicaWait(
            replicas: settings.waitReplicas, timeoutMilliseconds: runtime.timeoutMilliseconds)
        self.watch = watch
        wakeChannels = WakeChannels(keys: runtime.keys, id: runtime.id)
        counts = WaiterCounts(runtime: runtime, scripts: scripts)
        followedLeases = FollowedLeaseRegistry(
            runtime: runtime, scripts: scripts, watch: watch, maximumHold: settings.maximumHold)
        followedLeases.onLost = { [unowned self] name, token, fence in
            leases.recordEnd(name, token: token, fence: fence, .lost, now: runtime.time.now())
        }
        followedLeases.onRenewed = { [unowned self] name, token, fence, deadline in
            leases.recordRenewal(name, token: token, fence: fence, deadline: deadline)
        }
        followedLeases.replicate = { [unowned self] in replicate($0, then: $1) }
    }

    var waiting: Int { waiters.count }
    func heldLeaseCount(now: Instant) -> Int { leases.count(now: now) }
    var history: GrantHistory { leases.history }
    /// The number of commands sent on connections other than the runtime's.
    var commandsOnOtherConnections: Int64 {
        watch.commandsSent + (pipeline === runtime.pipeline ? 0 : pipeline.commandsSent)
    }
    /// See `RedisPipeline`; covers the connection that locks are granted on.
    var recentRefusal: RedisError? { pipeline.recentRefusal }
    var pendingCount: Int { pipeline.pendingCount }
    var refusalsOnOtherConnections: Int64 { pipeline === runtime.pipeline ? 0 : pipeline.refusals }
    func waiting(for name: String) -> Int { queue(name)?.decisions.count ?? 0 }
    func queue(_ name: String) -> LocalQueue? { queues.isEmpty ? nil : queues[ExactText(name)] }
    /// All queues in the order in which they were created. O(n log n).
    private var queuesInOrder: [LocalQueue] { queues.values.sorted { $0.number < $1.number } }

    // MARK: Acquire

    /// Acquires a lock, or waits for it. Returns an ID that `cancel` takes.
    func acquire(_ request: LockRequest, completion: Completion<LockResult>) -> WaiterID {
        lastID += 1
        let id = lastID
        if let violation = settings.violation(in: request) {
            completion(.failed(violation))
            return id
        }
        let waiter = LockWaiter(
            id: id, request: request, token: runtime.token(for: request), completion: completion,
            startedAt: runtime.time.now())
        let hasWaiters = queue(request.name.text) != nil
        switch (hasWaiters, request.wait > 0, request.owner != nil) {
        case (false, false, _):
            attemptOnce(waiter, by: .anyCaller)
        case (true, false, false):
            refuse(waiter)
        case (true, let mayWait, true):
            // The owner may hold the lock already. If not, those already waiting go first.
            attemptOnce(waiter, by: .currentOwner, mayWait: mayWait)
        case (_, true, _):
            enqueue(waiter)
        }
        return id
    }

    /// Cancels a wait. The completion is no longer called, and a grant that arrives later is released.
    func cancel(_ id: WaiterID) {
        if let waiter = attempting.removeValue(forKey: id) {
            waiter.state = .left
        } else if let waiter = waiters.removeValue(forKey: id) {
            leave(waiter)
        }
    }

    /// Makes one attempt, without blocking the queue.
    private func attemptOnce(_ waiter: LockWaiter, by candidate: AcquireScript.Candidate, mayWait: Bool = false) {
        let sentAt = runtime.time.now()
        if mayWait { attempting[waiter.id] = waiter }
        pipeline.send(script(for: waiter, by: candidate)) { [self] result in
            if mayWait { attempting[waiter.id] = nil }
            // The waiter may have been answered already, because Redis was down for too long or the call was cancelled.
            let isWaiting = waiter.state == .waiting
            switch result {
            case .success(.granted(let grant)):
                if isWaiting { hand(grant, to: waiter, sentAt: sentAt) } else { releaseGrant(waiter) }
            case .success(.held):
                guard isWaiting else { return }
                if mayWait { enqueue(waiter) } else { refuse(waiter) }
            case .success(.heldInAnotherMode(let mode)):
                if isWaiting { fail(waiter, .heldInAnotherMode(waiter.request, mode)) }
            case .failure(let error):
                if isWaiting { fail(waiter, InterlockError(error)) }
                if error.mayHaveGranted { releaseGrant(waiter) }
            }
        }
    }

    private func script(
        for waiter: LockWaiter, by candidate: AcquireScript.Candidate = .anyCaller, ticket: AcquireScript.Ticket? = nil
    ) -> AcquireScript {
        let request = waiter.request
        let group = request.mode.groupLabel.map { OwnerToken.make(label: $0, random: runtime.entropy.drawPair()) }
        return AcquireScript(
            keys: keys(request.name.text), token: waiter.token, ttl: request.ttl, mode: request.mode,
            candidate: candidate, ticket: ticket, group: group ?? "")
    }

    func keys(_ name: String) -> LockKeys { LockKeys(scripts: scripts, space: runtime.keys, name: name) }

    // MARK: Handing out

    /// Hands out a lease once the configured number of replicas has it.
    func hand(_ grant: AcquireScript.Grant, to waiter: LockWaiter, sentAt: Instant) {
        guard settings.waitReplicas > 0 else { return handOut(grant, to: waiter, sentAt: sentAt) }
        awaitReplicas("the lease in time, so it was released") { [self] error in
            guard let error else { return handOut(grant, to: waiter, sentAt: sentAt) }
            fail(waiter, error)
            releaseGrant(waiter)
        }
    }

    /// Waits until the configured number of replicas has the change. Must be called while the reply is handled, on the
    /// connection that locks are granted on.
    /// - Parameter consequence: the change, and the consequence if replicas lack it; used in the error text.
    private func awaitReplicas(_ consequence: String, then done: @escaping (InterlockError?) -> Void) {
        // On a cluster, this is the server that ran the script.
        guard let server = pipeline.replyingConnection else {
            preconditionFailure("replicas must be awaited while the reply is handled")
        }
        replication.acknowledged(at: server) { [settings] result in
            switch result {
            case .success(let count) where count >= settings.waitReplicas: done(nil)
            case .success(let count):
                done(.unreplicated(acknowledged: Int(count), wanted: settings.waitReplicas, consequence))
            case .failure(let error): done(InterlockError(error))
            }
        }
    }

    /// Whether replicas have a change that the primary has made.
    enum ReplicationOutcome {
        case enough
        case tooFew(InterlockError)
        /// The lease has ended in the meantime.
        case lost
    }

    /// Repeats a renewal on the connection that waits for replicas. The renewal itself used another connection, so it
    /// never queues behind a `WAIT`; only the answer to the caller does.
    func replicate(_ script: RenewScript, then done: @escaping (ReplicationOutcome) -> Void) {
        guard settings.waitReplicas > 0 else { return done(.enough) }
        var script = script
        script.purpose = .replicate
        pipeline.send(script) { [self] result in
            switch result {
            case .success(.held):
                awaitReplicas("the renewal in time; the lease keeps its previous end") { done($0.map { .tooFew($0) } ?? .enough) }
            case .success(.lost), .success(.heldByGroup): done(.lost)
            case .failure(let error): done(.tooFew(InterlockError(error)))
            }
        }
    }

    /// Hands out the lease. If it has already expired, the call fails; if the caller has left, the lease is released.
    private func handOut(_ grant: AcquireScript.Grant, to waiter: LockWaiter, sentAt: Instant) {
        let now = runtime.time.now()
        let request = waiter.request
        let valid = LeaseValidity.remaining(ttl: request.ttl, sentAt: sentAt, now: now)
        let deadline = LeaseValidity.deadline(ttl: request.ttl, sentAt: sentAt)
        guard valid > 0 else {
            return fail(
                waiter,
                InterlockError(
                    .unavailable, "the lease of \(request.ttl) ms ended before it could be returned; use a longer ttl"))
        }
        let lease = Lease(
            name: request.name.text, token: waiter.token, fence: grant.fence, validMilliseconds: valid,
            ttlMilliseconds: request.ttl,
            deadline: deadline, group: grant.group, hasOwnerToken: request.owner != nil)
        // Recorded before the answer, because the caller may immediately ask to be notified of its loss.
        leases.recordGrant(lease, to: request, startedAt: waiter.startedAt, now: now, host: runtime.host)
        scheduleReview()
        if lease.hasOwnerToken {
            // The lease may already be followed on behalf of an earlier call of the same owner.
            followedLeases.grantedAgain(lease, until: deadline)
        }
        if let slots = lease.permits, let requested = request.mode.permits { note(requested, slots: slots, of: lease.name) }
        guard waiter.completion(.granted(lease)) else {
            leases.recordEnd(lease.name, token: lease.token, .released, now: now)
            return releaseGrant(waiter)
        }
        runtime.metrics.locksGranted.increment()
        runtime.metrics.acquireTime.recordNanoseconds(now.nanoseconds - waiter.startedAt.nanoseconds)
    }

    private func refuse(_ waiter: LockWaiter) {
        runtime.metrics.locksRefused.increment()
        waiter.completion(.held)
    }

    private func fail(_ waiter: LockWaiter, _ error: InterlockError) {
        runtime.metrics.locksFailed.increment()
        waiter.completion(.failed(error))
    }

    // MARK: Waiting

    private func enqueue(_ waiter: LockWaiter) {
        let wait = min(waiter.request.wait, settings.maximumWait.wholeMilliseconds)
        let deadline = waiter.startedAt.advanced(byMilliseconds: wait)
        guard deadline > runtime.time.now() else { return refuse(waiter) }
        waiter.timeout = runtime.deadlines.schedule(at: deadline) { [unowned self] in timeOut(waiter) }
        waiters[waiter.id] = waiter
        let name = waiter.request.name.text
        let queue = queue(name) ?? openQueue(name)
        queue.entered(waiter)
        perform(queue.decisions.enqueue(.init(id: waiter.id, deadline: deadline)), on: queue)
    }

    private func openQueue(_ name: String) -> LocalQueue {
        let ticket = OwnerToken.makeTicket(sidecar: runtime.id, random: runtime.entropy.drawPair())
        lastQueueNumber += 1
        let queue = LocalQueue(number: lastQueueNumber, name: name, ticket: ticket)
        queues[ExactText(name)] = queue
        return queue
    }

    private func forget(_ queue: LocalQueue) {
        queues[ExactText(queue.name)] = nil
        wakeChannels.unsubscribeLater(for: queue.name)
    }

    /// Ends a wait whose deadline has passed. If a command is in progress for this waiter or for another copy of its
    /// call, the reply, which arrives within `redis.timeout`, decides the outcome.
    private func timeOut(_ waiter: LockWaiter) {
        guard let queue = queue(waiter.request.name.text), queue.hasCommandInFlight(for: [waiter] + queue.copies(of: waiter))
        else { return giveUp(waiter) }
        waiter.isOverdue = true
    }

    /// Ends the overdue waits of this waiter and of the other copies of its call, unless a command in progress may
    /// still grant them the lock.
    func endOverdueWaits(_ waiter: LockWaiter, in queue: LocalQueue, hasCommandInFlight: Bool) {
        let copies = queue.copies(of: waiter)
        guard !hasCommandInFlight, !queue.hasCommandInFlight(for: copies) else { return }
        for overdue in copies + [waiter] where overdue.isOverdue { giveUp(overdue) }
    }

    private func giveUp(_ waiter: LockWaiter) {
        guard waiters.removeValue(forKey: waiter.id) != nil else { return }
        if let failure = queue(waiter.request.name.text)?.failure {
            fail(waiter, InterlockError(failure))
        } else {
            refuse(waiter)
        }
        leave(waiter)
    }

    private func leave(_ waiter: LockWaiter) {
        waiter.state = .left
        waiter.timeout?.cancel()
        if let queue = queue(waiter.request.name.text) {
            queue.left(waiter)
            let wasHead = queue.decisions.head == waiter.id
            perform(queue.decisions.remove(waiter.id).next, on: queue)
            // A reader may have been waiting only because of this writer.
            if wasHead, waiter.request.mode == .exclusive, headMode(of: queue) == .shared {
                perform(queue.decisions.wake(), on: queue)
            }
        }
        if waiter.mayHold { releaseGrant(waiter) }
    }

    /// Removes a waiter whose turn has come from the queue. Returns `false` if it has left or already has the lock.
    func serve(_ waiter: LockWaiter) -> Bool {
        guard waiter.state == .waiting else { return false }
        waiter.state = .served
        waiter.timeout?.cancel()
        waiters[waiter.id] = nil
        queue(waiter.request.name.text)?.left(waiter)
        return true
    }

    func perform(_ action: LockQueue.Action, on queue: LocalQueue) {
        switch action {
        case .none:
            break
        case .drop(let hasTicket):
            // A caller may have rejoined the queue in response to its answer.
            guard queue.decisions.count == 0 else { break }
            queue.timer?.cancel()
            if self.queue(queue.name) === queue { forget(queue) }
            if hasTicket { withdraw(queue) }
        case .armTimer(let instant):
            queue.timer?.cancel()
            queue.timer = runtime.deadlines.schedule(at: instant) { [unowned self] in
                perform(queue.decisions.timerFired(now: runtime.time.now()), on: queue)
            }
        case .attempt(let id):
            attempt(id, in: queue)
        case .check:
            check(at: queue)
        }
    }

    private func headMode(of queue: LocalQueue) -> LockMode {
        queue.decisions.head.flatMap { waiters[$0]?.request.mode } ?? .exclusive
    }

    private func withdraw(_ queue: LocalQueue) {
        // If this command is lost, the ticket is offered one turn, which expires.
        pipeline.send(LeaveScript(keys: keys(queue.name), ticket: queue.ticket, sidecar: runtime.id)) { _ in }
    }

    private func check(at queue: LocalQueue) {
        watch.remainingTTL(of: runtime.keys.lock(queue.name)) { [self] result in
            let finding: LockQueue.Finding =
                switch result {
                case .success(.absent): .free
                case .success(.present(let ttl)): .held(ttl: ttl)
                case .failure: .unknown
                }
            perform(queue.decisions.checked(finding, now: runtime.time.now()), on: queue)
        }
    }

    private func attempt(_ id: WaiterID, in queue: LocalQueue) {
        guard let waiter = waiters[id] else { return perform(queue.decisions.failed(id), on: queue) }
        queue.timer?.cancel()
        let sentAt = runtime.time.now()
        let ticket = queue.ticket(hasOthers: queue.decisions.beginAttempt(), now: sentAt)
        pipeline.send(script(for: waiter, ticket: ticket)) { [self] result in
            attempted(waiter, in: queue, result, sentAt: sentAt)
        }
    }

    private func attempted(
        _ waiter: LockWaiter, in queue: LocalQueue, _ result: Result<AcquireScript.Reply, RedisError>, sentAt: Instant
    ) {
        let now = runtime.time.now()
        queue.failure = nil
        switch result {
        case .success(.granted(let grant)):
            let isOvertaken = waiter.state == .served
            let next =
                isOvertaken
                ? queue.decisions.overtaken(waiter.id, now: now)
                : queue.decisions.granted(waiter.id, ttl: waiter.request.ttl, nextEnd: grant.nextEnd, now: now)
            if !isOvertaken { queue.holder = waiter.token }
            if serve(waiter) {
                hand(grant, to: waiter, sentAt: sentAt)
            } else if !isOvertaken {
                releaseGrant(waiter)
            }
            perform(next, on: queue)
            serveCopies(of: waiter, in: queue)
        case .success(.held(let ttl, let position)):
            waiter.mayHold = false
            if self.queue(queue.name) === queue { wakeChannels.subscribe(for: queue.name) }
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isSuccessor(waiter.id))
            perform(queue.decisions.refused(waiter.id, ttl: ttl, position: position, now: now), on: queue)
        case .success(.heldInAnotherMode(let mode)):
            if serve(waiter) { fail(waiter, .heldInAnotherMode(waiter.request, mode)) }
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isSuccessor(waiter.id))
            perform(queue.decisions.failed(waiter.id), on: queue)
        case .failure(let error) where error.isRetryable || error.code == .replyLost:
            queue.failure = error
            // If this attempt was granted, the next attempt with the same token finds the grant.
            if error.isOutcomeUnknown { markAsPossibleHolder(waiter) }
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isSuccessor(waiter.id))
            // A cluster that rejected the script may accept it at any moment, without notice.
            perform(queue.decisions.unanswered(waiter.id, isRefused: error.code != .replyLost, now: now), on: queue)
        case .failure(let error):
            if serve(waiter) { fail(waiter, InterlockError(error)) }
            if error.mayHaveGranted || waiter.mayHold { releaseGrant(waiter) }
            queue.failure = error
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.decisions.isSuccessor(waiter.id))
            perform(queue.decisions.failed(waiter.id), on: queue)
        }
    }

    /// Serves the other copies of a granted call: a retry shares the grant instead of waiting behind other callers.
    func serveCopies(of waiter: LockWaiter, in queue: LocalQueue) {
        for copy in queue.copies(of: waiter) {
            // A command in progress for this copy finds the grant by itself.
            guard !queue.hasCommandInFlight(for: [copy]) else { continue }
            waiters[copy.id] = nil
            copy.timeout?.cancel()
            queue.left(copy)
            perform(queue.decisions.remove(copy.id).next, on: queue)
            attemptOnce(copy, by: .currentOwner, mayWait: true)
        }
    }

    /// Records that an attempt of this waiter has an unknown outcome, so that a possible grant is released when it
    /// leaves.
    func markAsPossibleHolder(_ waiter: LockWaiter) {
        if waiter.state == .left { releaseGrant(waiter) } else { waiter.mayHold = true }
    }

    // MARK: Notifications

    /// Makes the head of every queue check its lock again, because messages may have been lost.
    func wakeAll() {
        for queue in queuesInOrder { perform(queue.decisions.wake(), on: queue) }
    }

    /// Retries at the head of the queue, because the lock may be free.
    func wake(_ name: String) {
        guard let queue = queue(name) else { return }
        perform(queue.decisions.wake(), on: queue)
    }

    /// Wakes the waiters that a message from a script names.
    func receive(_ message: WakeMessage) {
        let name = runtime.keys.lockName(inBraces: message.lock)
        guard let queue = queue(name), queue.ticket == message.ticket else {
            // No waiter is behind this ticket; withdrawing it lets the next sidecar proceed.
            return pipeline.send(LeaveScript(keys: keys(name), ticket: message.ticket, sidecar: runtime.id)) { _ in }
        }
        switch message.kind {
        case .turn:
            perform(queue.decisions.wake(), on: queue)
        case .first:
            let now = runtime.time.now()
            // The lock's TTL says nothing about a slot that is reserved for another waiter.
            let isForSlot = headMode(of: queue).isSemaphore
            perform(isForSlot ? queue.decisions.becameFirstForSlot(now: now) : queue.decisions.becameFirst(now: now), on: queue)
        case .check:
            perform(queue.decisions.wake(), on: queue)
        case .count:
            counts.startPublishing(for: queue)
        }
    }

    /// Rechecks the locks whose keys satisfy `isAffected`, because any of them may have changed.
    func keysChanged(where isAffected: (String) -> Bool = { _ in true }) {
        for queue in queuesInOrder where isAffected(runtime.keys.lock(queue.name)) {
            perform(queue.decisions.changed(now: runtime.time.now()), on: queue)
        }
        followedLeases.recheckLeases { isAffected(runtime.keys.lock($0)) }
    }

    /// Retries for the locks whose keys satisfy `isAffected` and have moved to another server. Leases are checked when
    /// the new server starts to report changes.
    func keysMoved(where isAffected: (String) -> Bool) {
        for queue in queuesInOrder where isAffected(runtime.keys.lock(queue.name)) { perform(queue.decisions.wake(), on: queue) }
    }

    /// Call when Redis reports that a lock's key has changed.
    func keyChanged(_ key: String) {
        guard let name = runtime.keys.lockName(ofKey: key) else { return }
        followedLeases.changed(name)
        guard let queue = queue(name) else { return }
        perform(queue.decisions.changed(now: runtime.time.now()), on: queue)
    }

    /// Fails the waiters whose locks are on a part of Redis that has been down for too long.
    func failUnreachable(_ error: RedisError) {
        failWaiters(InterlockError(error)) { [self] name in
            let key = runtime.keys.lock(name)
            return !pipeline.reaches(key) || !runtime.pipeline.reaches(key)
        }
    }

    /// Fails the waiters of the locks whose names satisfy `isAffected`.
    func failWaiters(_ error: InterlockError, where isAffected: (String) -> Bool = { _ in true }) {
        let all = (Array(waiters.values) + Array(attempting.values)).sorted { $0.id < $1.id }
        let failed = all.filter { isAffected($0.request.name.text) }
        for waiter in failed {
            waiters[waiter.id] = nil
            attempting[waiter.id] = nil
        }
        for queue in queuesInOrder where isAffected(queue.name) {
            queue.timer?.cancel()
            withdraw(queue)
            forget(queue)
        }
        for waiter in failed {
            waiter.state = .left
            waiter.timeout?.cancel()
            fail(waiter, error)
            if waiter.mayHold { addLeftover(waiter) }
        }
    }
}
