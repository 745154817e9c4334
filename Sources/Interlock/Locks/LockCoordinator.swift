internal import CoreMetrics
internal import InterlockCore
internal import Logging
internal import RedisClient

/// Executes the decisions of the lock queues and the requests of callers. Confined to the coordinator's event loop.
final class LockCoordinator {
    typealias WaiterID = LockQueue.WaiterID

    let runtime: CoordinatorRuntime
    let settings: LockSettings
    /// The connection on which locks are granted. If grants wait for replicas, it serves no other purpose, and the
    /// other commands of holders use the runtime's connection.
    let pipeline: any RedisSender
    private let replication: ReplicaWait
    private var replicaShortageLog = ReplicaShortageLog()
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
    private var lastWaiterID: WaiterID = 0
    var pendingInspections: [UInt64: PendingInspection] = [:]
    var lastInspectionID: UInt64 = 0
    var isShuttingDown = false
    /// The sidecars that did not report their waiters, each with the time until which no inspection waits for it.
    /// Bounded.
    var unresponsiveSidecars: [String: Instant] = [:]
    /// The leases that unanswered commands may have left behind, each with its end. Bounded.
    var leftovers: [(name: String, token: String, until: Instant)] = []
    static let leftoverCapacity = 10_000
    /// The timer of the next attempt to release `leftovers`. It is brought forward when Redis is connected again.
    var leftoverRetry: Deadlines.Entry?
    var nextReview: Deadlines.Entry?
    /// The requested sizes of semaphores that were logged as differing, each with the name of its lock. Bounded.
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

    var waitingCount: Int { waiters.count }
    func heldLeaseCount(now: Instant) -> Int { leases.count(now: now) }
    var history: GrantHistory { leases.history }
    /// The number of commands sent on connections other than the runtime's.
    var commandsOnOtherConnections: Int64 {
        watch.commandsSent + (pipeline === runtime.pipeline ? 0 : pipeline.sentCommandCount)
    }
    /// The last refusal on the connection on which locks are granted; see `RedisPipeline.recentRefusal`.
    var recentRefusal: RedisError? { pipeline.recentRefusal }
    var pendingCount: Int { pipeline.pendingCount }
    var refusalsOnOtherConnections: Int64 { pipeline === runtime.pipeline ? 0 : pipeline.refusalCount }
    func waiterCount(for name: String) -> Int { queue(name)?.machine.count ?? 0 }
    func queue(_ name: String) -> LocalQueue? { queues.isEmpty ? nil : queues[ExactText(name)] }
    /// All queues in the order in which they were created. O(n log n).
    private var queuesInOrder: [LocalQueue] { queues.values.sorted { $0.number < $1.number } }

    // MARK: Acquire

    /// Acquires a lock, or waits for it. Returns an ID that `cancel` takes.
    func acquire(_ request: LockRequest, completion: Completion<LockResult>) -> WaiterID {
        lastWaiterID += 1
        let id = lastWaiterID
        if let violation = settings.violation(in: request) {
            completion(.failed(violation))
            return id
        }
        let waiter = LockWaiter(
            id: id, request: request, token: runtime.token(for: request), completion: completion,
            startedAt: runtime.time.now())
        let hasWaiters = queue(request.name.text) != nil
        switch (hasWaiters, request.waitMilliseconds > 0, request.owner != nil) {
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

    /// Cancels a wait. The completion is not called, and a grant that arrives later is released.
    func cancel(_ id: WaiterID) {
        if let waiter = attempting.removeValue(forKey: id) {
            waiter.state = .left
        } else if let waiter = waiters.removeValue(forKey: id) {
            leave(waiter)
        }
    }

    /// Makes one attempt outside the queue.
    /// - Parameter mayWait: whether the waiter joins the queue if the lock is held.
    private func attemptOnce(_ waiter: LockWaiter, by candidate: AcquireScript.Candidate, mayWait: Bool = false) {
        let sentAt = runtime.time.now()
        if mayWait { attempting[waiter.id] = waiter }
        pipeline.send(script(for: waiter, by: candidate)) { [self] result in
            if mayWait { attempting[waiter.id] = nil }
            // The waiter may have been answered already, because Redis was down for too long or the call was cancelled.
            let isWaiting = waiter.state == .waiting
            switch result {
            case .success(.granted(let grant)):
                if isWaiting { handOutOnceReplicated(grant, to: waiter, sentAt: sentAt) } else { releaseGrant(waiter) }
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
            keys: keys(request.name.text), token: waiter.token, ttlMilliseconds: request.ttlMilliseconds,
            mode: request.mode,
            candidate: candidate, ticket: ticket, group: group ?? "")
    }

    func keys(_ name: String) -> LockKeys { LockKeys(scripts: scripts, space: runtime.keys, name: name) }

    // MARK: Handing out

    /// Hands out a lease once the configured number of replicas has it.
    func handOutOnceReplicated(_ grant: AcquireScript.Grant, to waiter: LockWaiter, sentAt: Instant) {
        guard settings.waitReplicas > 0 else { return handOut(grant, to: waiter, sentAt: sentAt) }
        awaitReplicas("the lease in time, so it was released") { [self] error in
            guard let error else { return handOut(grant, to: waiter, sentAt: sentAt) }
            fail(waiter, error)
            releaseGrant(waiter)
        }
    }

    /// Waits until the configured number of replicas has the change. Must be called while a reply on the connection for
    /// grants is handled.
    /// - Parameter consequence: the change, and the consequence if too few replicas have it; used in the error text.
    private func awaitReplicas(_ consequence: String, then done: @escaping (InterlockError?) -> Void) {
        // On a cluster, this is the server that ran the script.
        guard let server = pipeline.replyingConnection else {
            preconditionFailure("replicas must be awaited while the reply is handled")
        }
        replication.countAcknowledgments(at: server) { [self] result in
            switch result {
            case .success(let replicaCount):
                let isEnough = replicaCount >= settings.waitReplicas
                if let event = replicaShortageLog.event(isEnough: isEnough, now: runtime.time.now()) {
                    runtime.logger.log(event, ["acknowledged": "\(replicaCount)", "wanted": "\(settings.waitReplicas)"])
                }
                done(
                    isEnough
                        ? nil : .unreplicated(acknowledged: Int(replicaCount), wanted: settings.waitReplicas, consequence))
            case .failure(let error): done(InterlockError(error))
            }
        }
    }

    /// The result of waiting until replicas have a renewal.
    enum ReplicationOutcome {
        case enough
        case tooFew(InterlockError)
        /// The lease ended in the meantime.
        case lost
    }

    /// Repeats a renewal on the connection for grants, and waits for replicas. The renewal itself used another
    /// connection, so only the answer to the caller queues behind a `WAIT`.
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
        let validMilliseconds = LeaseValidity.remainingMilliseconds(
            ttlMilliseconds: request.ttlMilliseconds, sentAt: sentAt, now: now)
        let deadline = LeaseValidity.deadline(ttlMilliseconds: request.ttlMilliseconds, sentAt: sentAt)
        guard validMilliseconds > 0 else {
            return fail(
                waiter,
                InterlockError(
                    .unavailable,
                    "the lease of \(request.ttlMilliseconds) ms ended before it could be returned; use a longer ttl"
                ))
        }
        let lease = Lease(
            name: request.name.text, token: waiter.token, fence: grant.fence, validMilliseconds: validMilliseconds,
            ttlMilliseconds: request.ttlMilliseconds, deadline: deadline, group: grant.group,
            hasOwnerToken: request.owner != nil)
        // Record the lease before the answer, because the caller may follow it immediately.
        leases.recordGrant(lease, to: request, startedAt: waiter.startedAt, now: now, host: runtime.host)
        scheduleReview()
        if lease.hasOwnerToken {
            // An earlier call of the same owner may already follow the lease.
            followedLeases.leaseGrantedAgain(lease, until: deadline)
        }
        if let slots = lease.permits, let requestedSlots = request.mode.permits {
            logSizeMismatch(requestedSlots, slots: slots, of: lease.name)
        }
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
        let waitMilliseconds = min(waiter.request.waitMilliseconds, settings.maximumWait.wholeMilliseconds)
        let deadline = waiter.startedAt.advanced(byMilliseconds: waitMilliseconds)
        guard deadline > runtime.time.now() else { return refuse(waiter) }
        waiter.timeout = runtime.deadlines.schedule(at: deadline) { [unowned self] in timeOut(waiter) }
        waiters[waiter.id] = waiter
        let name = waiter.request.name.text
        let queue = queue(name) ?? openQueue(name)
        queue.add(waiter)
        perform(queue.machine.enqueue(.init(id: waiter.id, deadline: deadline)), on: queue)
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
    /// call, its reply decides the outcome; it arrives within `redis.timeout`.
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
            queue.remove(waiter)
            let wasHead = queue.machine.head == waiter.id
            perform(queue.machine.remove(waiter.id).next, on: queue)
            // A reader may have been waiting only because of this writer.
            if wasHead, waiter.request.mode == .exclusive, headMode(of: queue) == .shared {
                perform(queue.machine.wake(), on: queue)
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
        if let queue = queue(waiter.request.name.text) { queue.remove(waiter) }
        return true
    }

    func perform(_ action: LockQueue.Action, on queue: LocalQueue) {
        switch action {
        case .none:
            break
        case .drop(let hasTicket):
            // A caller may have rejoined the queue in response to its answer.
            guard queue.machine.count == 0 else { break }
            queue.timer?.cancel()
            if self.queue(queue.name) === queue { forget(queue) }
            if hasTicket { withdraw(queue) }
        case .armTimer(let instant):
            queue.timer?.cancel()
            queue.timer = runtime.deadlines.schedule(at: instant) { [unowned self] in
                perform(queue.machine.timerFired(now: runtime.time.now()), on: queue)
            }
        case .attempt(let id):
            attempt(id, in: queue)
        case .check:
            check(at: queue)
        }
    }

    private func headMode(of queue: LocalQueue) -> LockMode {
        queue.machine.head.flatMap { waiters[$0]?.request.mode } ?? .exclusive
    }

    private func withdraw(_ queue: LocalQueue) {
        // If this command is lost, the ticket gets one turn, which expires unused.
        pipeline.send(LeaveScript(keys: keys(queue.name), ticket: queue.ticket, sidecar: runtime.id)) { _ in }
    }

    private func check(at queue: LocalQueue) {
        watch.remainingTTL(of: runtime.keys.lock(queue.name)) { [self] result in
            let finding: LockQueue.Finding =
                switch result {
                case .success(.absent): .free
                case .success(.present(let ttlMilliseconds)): .held(ttlMilliseconds: ttlMilliseconds)
                case .failure: .unknown
                }
            perform(queue.machine.checkEnded(finding, now: runtime.time.now()), on: queue)
        }
    }

    private func attempt(_ id: WaiterID, in queue: LocalQueue) {
        guard let waiter = waiters[id] else { return perform(queue.machine.attemptFailed(id), on: queue) }
        queue.timer?.cancel()
        let sentAt = runtime.time.now()
        let ticket = queue.ticket(hasOthers: queue.machine.beginAttempt(), now: sentAt)
        pipeline.send(script(for: waiter, ticket: ticket)) { [self] result in
            attemptAnswered(waiter, in: queue, result, sentAt: sentAt)
        }
    }

    private func attemptAnswered(
        _ waiter: LockWaiter, in queue: LocalQueue, _ result: Result<AcquireScript.Reply, RedisError>, sentAt: Instant
    ) {
        let now = runtime.time.now()
        queue.failure = nil
        switch result {
        case .success(.granted(let grant)):
            let isOvertaken = waiter.state == .served
            let nextAction =
                isOvertaken
                ? queue.machine.attemptOvertaken(waiter.id, now: now)
                : queue.machine.attemptGranted(
                    waiter.id, ttlMilliseconds: waiter.request.ttlMilliseconds,
                    nextEndMilliseconds: grant.nextEndMilliseconds,
                    now: now)
            if !isOvertaken { queue.holder = waiter.token }
            if serve(waiter) {
                handOutOnceReplicated(grant, to: waiter, sentAt: sentAt)
            } else if !isOvertaken {
                releaseGrant(waiter)
            }
            perform(nextAction, on: queue)
            serveCopies(of: waiter, in: queue)
        case .success(.held(let ttlMilliseconds, let position)):
            waiter.mayHold = false
            if self.queue(queue.name) === queue { wakeChannels.subscribe(for: queue.name) }
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isSuccessor(waiter.id))
            perform(
                queue.machine.attemptRefused(
                    waiter.id, ttlMilliseconds: ttlMilliseconds, position: position, now: now),
                on: queue)
        case .success(.heldInAnotherMode(let mode)):
            if serve(waiter) { fail(waiter, .heldInAnotherMode(waiter.request, mode)) }
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isSuccessor(waiter.id))
            perform(queue.machine.attemptFailed(waiter.id), on: queue)
        case .failure(let error) where error.isRetryable || error.code == .replyLost:
            queue.failure = error
            // If this attempt was granted, the next attempt with the same token finds the grant.
            if error.isOutcomeUnknown { markAsPossibleHolder(waiter) }
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isSuccessor(waiter.id))
            // A cluster that rejected the script may accept it at any moment and does not announce that.
            perform(queue.machine.attemptUnanswered(waiter.id, isRefused: error.code != .replyLost, now: now), on: queue)
        case .failure(let error):
            if serve(waiter) { fail(waiter, InterlockError(error)) }
            if error.mayHaveGranted || waiter.mayHold { releaseGrant(waiter) }
            queue.failure = error
            endOverdueWaits(waiter, in: queue, hasCommandInFlight: queue.machine.isSuccessor(waiter.id))
            perform(queue.machine.attemptFailed(waiter.id), on: queue)
        }
    }

    /// Serves the other copies of a granted call, so that a retry shares the grant instead of waiting behind other
    /// callers.
    func serveCopies(of waiter: LockWaiter, in queue: LocalQueue) {
        for copy in queue.copies(of: waiter) {
            // A command in progress for this copy finds the grant without help.
            guard !queue.hasCommandInFlight(for: [copy]) else { continue }
            waiters[copy.id] = nil
            copy.timeout?.cancel()
            queue.remove(copy)
            perform(queue.machine.remove(copy.id).next, on: queue)
            attemptOnce(copy, by: .currentOwner, mayWait: true)
        }
    }

    /// Records that an attempt for this waiter has an unknown outcome. A possible grant is released when the waiter
    /// leaves.
    func markAsPossibleHolder(_ waiter: LockWaiter) {
        if waiter.state == .left { releaseGrant(waiter) } else { waiter.mayHold = true }
    }

    // MARK: Notifications

    /// Retries at the head of every queue, because messages may have been lost.
    func wakeAll() {
        for queue in queuesInOrder { perform(queue.machine.wake(), on: queue) }
    }

    /// Retries at the head of the queue, because the lock may be free.
    func wake(_ name: String) {
        guard let queue = queue(name) else { return }
        perform(queue.machine.wake(), on: queue)
    }

    /// Wakes the waiters that a message from a script names.
    func receive(_ message: WakeMessage) {
        let name = runtime.keys.lockName(inBraces: message.lock)
        guard let queue = queue(name), queue.ticket == message.ticket else {
            // No caller waits behind this ticket. Withdraw it, so that the next sidecar gets its turn.
            return pipeline.send(LeaveScript(keys: keys(name), ticket: message.ticket, sidecar: runtime.id)) { _ in }
        }
        switch message.kind {
        case .turn:
            perform(queue.machine.wake(), on: queue)
        case .first:
            let now = runtime.time.now()
            // The lock's TTL does not show when a slot that is reserved for another waiter becomes free.
            let isForSlot = headMode(of: queue).isSemaphore
            perform(isForSlot ? queue.machine.becameFirstForSlot(now: now) : queue.machine.becameFirst(now: now), on: queue)
        case .check:
            perform(queue.machine.wake(), on: queue)
        case .count:
            counts.startPublishing(for: queue)
        }
    }

    /// Rechecks the locks whose keys satisfy `isAffected`, because any of them may have changed.
    func keysChanged(where isAffected: (String) -> Bool = { _ in true }) {
        for queue in queuesInOrder where isAffected(runtime.keys.lock(queue.name)) {
            perform(queue.machine.lockChanged(now: runtime.time.now()), on: queue)
        }
        followedLeases.recheckLeases { isAffected(runtime.keys.lock($0)) }
    }

    /// Retries for the locks whose keys satisfy `isAffected`, because they have moved to another server. Leases are
    /// checked when the new server starts to report changes.
    func keysMoved(where isAffected: (String) -> Bool) {
        for queue in queuesInOrder where isAffected(runtime.keys.lock(queue.name)) { perform(queue.machine.wake(), on: queue) }
    }

    /// Checks a lock, because Redis reports that its key has changed.
    func keyChanged(_ key: String) {
        guard let name = runtime.keys.lockName(ofKey: key) else { return }
        followedLeases.keyChanged(name)
        guard let queue = queue(name) else { return }
        perform(queue.machine.lockChanged(now: runtime.time.now()), on: queue)
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
        let allWaiters = (Array(waiters.values) + Array(attempting.values)).sorted { $0.id < $1.id }
        let failedWaiters = allWaiters.filter { isAffected($0.request.name.text) }
        for waiter in failedWaiters {
            waiters[waiter.id] = nil
            attempting[waiter.id] = nil
        }
        for queue in queuesInOrder where isAffected(queue.name) {
            queue.timer?.cancel()
            withdraw(queue)
            forget(queue)
        }
        for waiter in failedWaiters {
            waiter.state = .left
            waiter.timeout?.cancel()
            fail(waiter, error)
            if waiter.mayHold { addLeftover(waiter) }
        }
    }
}
