internal import CoreMetrics
internal import InterlockCore
internal import Logging
internal import RedisClient

/// Locks: carries out what the queues decide, and what callers ask. Confined to the coordinator's event loop.
final class LockCoordinator {
    typealias WaiterID = LockQueue.WaiterID

    let runtime: CoordinatorRuntime
    let settings: LockSettings
    /// The connection that locks are granted on: with replicas to wait for it is their own, and everything else that holders ask
    /// goes by the runtime's.
    let pipeline: any RedisSender
    private let replication: ReplicaWait
    let watch: KeyWatch
    let keeper: LeaseKeeper
    let wakeChannels: WakeChannels
    private let counts: WaiterCounts
    private let scripts: LockScripts
    private var queues: [ExactText: LocalQueue] = [:]
    private var lastQueueNumber: UInt64 = 0
    private(set) var waiters: [WaiterID: LockWaiter] = [:]
    /// Those who try once before they wait.
    private var trying: [WaiterID: LockWaiter] = [:]
    var leases = LeaseTable()
    private var lastID: WaiterID = 0
    var secondLooks: [UInt64: SecondLook] = [:]
    var lastLook: UInt64 = 0
    var isGoingDown = false
    /// Sidecars that were asked how many wait in them and did not answer, until they are asked again. Bounded.
    var silent: [String: Instant] = [:]
    /// Leases that an unanswered acquire may have left behind, until they are known to be gone. Bounded.
    var leftovers: [(name: String, token: String, until: Instant)] = []
    static let leftoverCapacity = 10_000
    /// The time of the next attempt for them; Redis' return brings it forward.
    var leftoverRetry: Deadlines.Entry?
    var nextReview: Deadlines.Entry?
    /// The semaphores and requested sizes that were already logged as differing. Bounded.
    var misfits: Set<String> = []

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
        keeper = LeaseKeeper(runtime: runtime, scripts: scripts, watch: watch, ceiling: settings.maximumHold)
        keeper.onLost = { [unowned self] name, token, fence in
            leases.ended(name, token: token, fence: fence, .lost, now: runtime.time.now())
        }
        keeper.onExtended = { [unowned self] name, token, fence, deadline in
            leases.renewed(name, token: token, fence: fence, deadline: deadline)
        }
        keeper.replicate = { [unowned self] in replicate($0, then: $1) }
    }

    var waiting: Int { waiters.count }
    func held(now: Instant) -> Int { leases.count(now: now) }
    var history: GrantHistory { leases.history }
    /// To Redis, over connections that are not the runtime's.
    var commandsSentApart: Int64 {
        watch.commandsSent + (pipeline === runtime.pipeline ? 0 : pipeline.commandsSent)
    }
    /// See `RedisPipeline`; of the connection that is not the runtime's.
    var recentRefusal: RedisError? { pipeline.recentRefusal }
    var awaited: Int { pipeline.awaited }
    var refusalsApart: Int64 { pipeline === runtime.pipeline ? 0 : pipeline.refusals }
    func waiting(for name: String) -> Int { queue(name)?.decisions.count ?? 0 }
    func queue(_ name: String) -> LocalQueue? { queues.isEmpty ? nil : queues[ExactText(name)] }
    /// In the order in which they were opened. O(n log n).
    private var queuesInOrder: [LocalQueue] { queues.values.sorted { $0.number < $1.number } }

    // MARK: Acquire

    /// Takes a lock, or waits for it. Returns an ID by which the wait can be given up.
    func acquire(_ request: LockRequest, completion: Completion<LockAnswer>) -> WaiterID {
        lastID += 1
        let id = lastID
        if let wrong = settings.violation(in: request) {
            completion(.failed(wrong))
            return id
        }
        let waiter = LockWaiter(
            id: id, request: request, token: runtime.token(for: request), completion: completion,
            startedAt: runtime.time.now())
        let othersWait = queue(request.name.text) != nil
        switch (othersWait, request.wait > 0, request.owner != nil) {
        case (false, false, _):
            attemptOnce(waiter, by: .anybody)
        case (true, false, false):
            refuse(waiter)
        case (true, let waits, true):
            // Its owner may have it already; otherwise those who wait come first.
            attemptOnce(waiter, by: .presentOwner, orWaits: waits)
        case (_, true, _):
            enqueue(waiter)
        }
        return id
    }

    /// Gives up a wait: the completion is not called any more, and what is granted meanwhile is given back.
    func cancel(_ id: WaiterID) {
        if let waiter = trying.removeValue(forKey: id) {
            waiter.standing = .left
        } else if let waiter = waiters.removeValue(forKey: id) {
            leave(waiter)
        }
    }

    /// One try that nobody queues behind.
    private func attemptOnce(_ waiter: LockWaiter, by candidate: AcquireScript.Candidate, orWaits: Bool = false) {
        let sentAt = runtime.time.now()
        if orWaits { trying[waiter.id] = waiter }
        pipeline.send(script(for: waiter, by: candidate)) { [self] result in
            if orWaits { trying[waiter.id] = nil }
            // It may have its answer already: Redis was away for too long, or nobody wants it any more.
            let isWaiting = waiter.standing == .waiting
            switch result {
            case .success(.granted(let grant)):
                if isWaiting { hand(grant, to: waiter, sentAt: sentAt) } else { giveBack(waiter) }
            case .success(.held):
                guard isWaiting else { return }
                if orWaits { enqueue(waiter) } else { refuse(waiter) }
            case .success(.heldOtherwise(let mode)):
                if isWaiting { fail(waiter, .heldOtherwise(waiter.request, mode)) }
            case .failure(let error):
                if isWaiting { fail(waiter, InterlockError(error)) }
                if error.mayHaveGranted { giveBack(waiter) }
            }
        }
    }

    private func script(
        for waiter: LockWaiter, by candidate: AcquireScript.Candidate = .anybody, ticket: AcquireScript.Ticket? = nil
    ) -> AcquireScript {
        let request = waiter.request
        let group = request.mode.groupLabel.map { OwnerToken.make(label: $0, random: runtime.entropy.drawPair()) }
        return AcquireScript(
            keys: keys(request.name.text), token: waiter.token, ttl: request.ttl, mode: request.mode,
            candidate: candidate, ticket: ticket, group: group ?? "")
    }

    func keys(_ name: String) -> LockKeys { LockKeys(scripts: scripts, space: runtime.keys, name: name) }

    // MARK: Handing out

    /// Hands a lease out as soon as so many replicas have it as are asked for.
    func hand(_ grant: AcquireScript.Grant, to waiter: LockWaiter, sentAt: Instant) {
        guard settings.waitReplicas > 0 else { return handOut(grant, to: waiter, sentAt: sentAt) }
        acknowledged("the lease in time, and it was given up") { [self] error in
            guard let error else { return handOut(grant, to: waiter, sentAt: sentAt) }
            fail(waiter, error)
            giveBack(waiter)
        }
    }

    /// Within a reply on the connection that locks are granted on: waits until so many replicas have what it is about.
    /// - Parameter what: they should have, and what follows if they have not.
    private func acknowledged(_ what: String, then done: @escaping (InterlockError?) -> Void) {
        // Of a cluster, the server that has run the script.
        guard let server = pipeline.answering else {
            preconditionFailure("replicas are waited for within the reply that they are to have")
        }
        replication.acknowledged(at: server) { [settings] result in
            switch result {
            case .success(let count) where count >= settings.waitReplicas: done(nil)
            case .success(let count):
                done(.unreplicated(acknowledged: Int(count), wanted: settings.waitReplicas, what))
            case .failure(let error): done(InterlockError(error))
            }
        }
    }

    /// Whether replicas have what Redis has done.
    enum Replicated {
        case enough
        case tooFew(InterlockError)
        /// It has ended meanwhile.
        case lost
    }

    /// Redis has extended a lease, as `script` asks: once more on the connection that replicas are waited for on, so that a wait that
    /// is under way there holds up no extension, but only what is promised of it.
    func replicate(_ script: RenewScript, then done: @escaping (Replicated) -> Void) {
        guard settings.waitReplicas > 0 else { return done(.enough) }
        var script = script
        script.purpose = .replicate
        pipeline.send(script) { [self] result in
            switch result {
            case .success(.holds):
                acknowledged("the renewal in time; what was promised before stands") { done($0.map { .tooFew($0) } ?? .enough) }
            case .success(.lost), .success(.perhapsInGroup): done(.lost)
            case .failure(let error): done(.tooFew(InterlockError(error)))
            }
        }
    }

    /// Hands the lease out, unless it is over already or its caller has left: then the next has it.
    private func handOut(_ grant: AcquireScript.Grant, to waiter: LockWaiter, sentAt: Instant) {
        let now = runtime.time.now()
        let request = waiter.request
        let valid = LeaseValidity.remaining(ttl: request.ttl, sentAt: sentAt, now: now)
        let deadline = LeaseValidity.deadline(ttl: request.ttl, sentAt: sentAt)
        guard valid > 0 else {
            return fail(
                waiter,
                InterlockError(
                    .unavailable, "the lease of \(request.ttl) ms was over before it could be handed out; ask for a longer one"))
        }
        let lease = Lease(
            name: request.name.text, token: waiter.token, fence: grant.fence, validMilliseconds: valid,
            ttlMilliseconds: request.ttl,
            deadline: deadline, group: grant.group, isOwners: request.owner != nil)
        // Before the answer: whoever gets it may at once ask to be told when it is lost.
        leases.granted(lease, to: request, startedAt: waiter.startedAt, now: now, host: runtime.host)
        planReview()
        if lease.isOwners {
            // It may be followed already, for an earlier call of the same owner.
            keeper.grantedAgain(lease, until: deadline)
        }
        if let places = lease.permits, let asked = request.mode.permits { note(asked, places: places, of: lease.name) }
        guard waiter.completion(.granted(lease)) else {
            leases.ended(lease.name, token: lease.token, .released, now: now)
            return giveBack(waiter)
        }
        runtime.metrics.locksGranted.increment()
        runtime.metrics.acquireTime.recordNanoseconds(now.nanoseconds - waiter.startedAt.nanoseconds)
    }

    private func refuse(_ waiter: LockWaiter) {
        runtime.metrics.locksHeld.increment()
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
        wakeChannels.waitIsOver(for: queue.name)
    }

    /// Its wait is over. What is under way for it, or for another copy of its call, may still grant it the lock, and is answered within
    /// `redis.timeout`: until then nobody can say that it has not got it.
    private func timeOut(_ waiter: LockWaiter) {
        guard let queue = queue(waiter.request.name.text), queue.isAnythingUnderWay(for: [waiter] + queue.copies(of: waiter))
        else { return giveUp(waiter) }
        waiter.isOverdue = true
    }

    /// Something that could have granted it the lock did not: the last such thing ends waits that are overdue, its own and those of
    /// other copies of its call.
    func stayed(_ waiter: LockWaiter, in queue: LocalQueue, isAnythingUnderWay: Bool) {
        let copies = queue.copies(of: waiter)
        guard !isAnythingUnderWay, !queue.isAnythingUnderWay(for: copies) else { return }
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
        waiter.standing = .left
        waiter.timeout?.cancel()
        if let queue = queue(waiter.request.name.text) {
            queue.left(waiter)
            let wasHead = queue.decisions.head == waiter.id
            perform(queue.decisions.remove(waiter.id).next, on: queue)
            // A reader may have waited behind this writer only.
            if wasHead, waiter.request.mode == .exclusive, headMode(of: queue) == .shared {
                perform(queue.decisions.wake(), on: queue)
            }
        }
        if waiter.mayHold { giveBack(waiter) }
    }

    /// A waiter's turn has come: it waits no more. `false`: it has left, or has the lock already.
    func serve(_ waiter: LockWaiter) -> Bool {
        guard waiter.standing == .waiting else { return false }
        waiter.standing = .served
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
            // Whoever was told something meanwhile may have come back at once.
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
        case .look:
            look(at: queue)
        }
    }

    private func headMode(of queue: LocalQueue) -> LockMode {
        queue.decisions.head.flatMap { waiters[$0]?.request.mode } ?? .exclusive
    }

    private func withdraw(_ queue: LocalQueue) {
        // Should it be lost, the ticket is offered a turn once, and lapses with it.
        pipeline.send(LeaveScript(keys: keys(queue.name), ticket: queue.ticket, sidecar: runtime.id)) { _ in }
    }

    private func look(at queue: LocalQueue) {
        watch.remaining(of: runtime.keys.lock(queue.name)) { [self] result in
            let finding: LockQueue.Finding =
                switch result {
                case .success(.absent): .free
                case .success(.lasts(let ttl)): .held(ttl: ttl)
                case .failure: .unknown
                }
            perform(queue.decisions.looked(finding, now: runtime.time.now()), on: queue)
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
            let isOvertaken = waiter.standing == .served
            let next =
                isOvertaken
                ? queue.decisions.overtaken(waiter.id, now: now)
                : queue.decisions.granted(waiter.id, ttl: waiter.request.ttl, nextEnd: grant.nextEnd, now: now)
            if !isOvertaken { queue.holder = waiter.token }
            if serve(waiter) {
                hand(grant, to: waiter, sentAt: sentAt)
            } else if !isOvertaken {
                giveBack(waiter)
            }
            perform(next, on: queue)
            askForMates(of: waiter, in: queue)
        case .success(.held(let ttl, let place)):
            waiter.mayHold = false
            if self.queue(queue.name) === queue { wakeChannels.waits(for: queue.name) }
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isSuccessor(waiter.id))
            perform(queue.decisions.refused(waiter.id, ttl: ttl, place: place, now: now), on: queue)
        case .success(.heldOtherwise(let mode)):
            if serve(waiter) { fail(waiter, .heldOtherwise(waiter.request, mode)) }
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isSuccessor(waiter.id))
            perform(queue.decisions.failed(waiter.id), on: queue)
        case .failure(let error) where error.isPostponement || error.code == .answerLost:
            queue.failure = error
            // The same token tries again once Redis is back: if this attempt had won, that one finds it.
            if error.isOutcomeUnknown { doubt(waiter) }
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isSuccessor(waiter.id))
            // A cluster that has not run it may do so any moment, and nothing tells when.
            perform(queue.decisions.unanswered(waiter.id, isRefused: error.code != .answerLost, now: now), on: queue)
        case .failure(let error):
            if serve(waiter) { fail(waiter, InterlockError(error)) }
            if error.mayHaveGranted || waiter.mayHold { giveBack(waiter) }
            queue.failure = error
            stayed(waiter, in: queue, isAnythingUnderWay: queue.decisions.isSuccessor(waiter.id))
            perform(queue.decisions.failed(waiter.id), on: queue)
        }
    }

    /// What one copy of a call has got is the other copies' too, which were sent again: they do not wait behind others for it.
    func askForMates(of waiter: LockWaiter, in queue: LocalQueue) {
        for mate in queue.copies(of: waiter) {
            // What is under way for it finds that out by itself.
            guard !queue.isAnythingUnderWay(for: [mate]) else { continue }
            waiters[mate.id] = nil
            mate.timeout?.cancel()
            queue.left(mate)
            perform(queue.decisions.remove(mate.id).next, on: queue)
            attemptOnce(mate, by: .presentOwner, orWaits: true)
        }
    }

    /// Nobody knows whether it was granted the lock: should it leave before that is known, it gives it back.
    func doubt(_ waiter: LockWaiter) {
        if waiter.standing == .left { giveBack(waiter) } else { waiter.mayHold = true }
    }

    // MARK: News

    /// Every lock's head looks again: messages may have been lost.
    func wakeAll() {
        for queue in queuesInOrder { perform(queue.decisions.wake(), on: queue) }
    }

    /// The lock may be free.
    func wake(_ name: String) {
        guard let queue = queue(name) else { return }
        perform(queue.decisions.wake(), on: queue)
    }

    /// A script has told this sidecar something.
    func receive(_ message: WakeMessage) {
        let name = runtime.keys.lockName(inBraces: message.lock)
        guard let queue = queue(name), queue.ticket == message.ticket else {
            // Nobody waits behind that ticket any more: the next is not kept waiting.
            return pipeline.send(LeaveScript(keys: keys(name), ticket: message.ticket, sidecar: runtime.id)) { _ in }
        }
        switch message.what {
        case .turn:
            perform(queue.decisions.wake(), on: queue)
        case .first:
            let now = runtime.time.now()
            // The lock's own time says nothing of a place that is kept for another.
            let isForPlace = headMode(of: queue).isSemaphore
            perform(isForPlace ? queue.decisions.isFirstForPlace(now: now) : queue.decisions.isFirst(now: now), on: queue)
        case .look:
            perform(queue.decisions.wake(), on: queue)
        case .count:
            counts.asked(for: queue)
        }
    }

    /// Any lock's key may have been changed, of those whose keys `isConcerned`.
    func keysChanged(where isConcerned: (String) -> Bool = { _ in true }) {
        for queue in queuesInOrder where isConcerned(runtime.keys.lock(queue.name)) {
            perform(queue.decisions.changed(now: runtime.time.now()), on: queue)
        }
        keeper.anythingChanged { isConcerned(runtime.keys.lock($0)) }
    }

    /// Locks whose keys `isConcerned` are at another server now: their waiters try again. Leases are looked at where they are watched.
    func keysMoved(where isConcerned: (String) -> Bool) {
        for queue in queuesInOrder where isConcerned(runtime.keys.lock(queue.name)) { perform(queue.decisions.wake(), on: queue) }
    }

    /// Redis says that a lock's key was changed.
    func keyChanged(_ key: String) {
        guard let name = runtime.keys.lockName(ofKey: key) else { return }
        keeper.changed(name)
        guard let queue = queue(name) else { return }
        perform(queue.decisions.changed(now: runtime.time.now()), on: queue)
    }

    /// Redis has been away for too long, or a part of it: nobody is left waiting without an answer.
    func failUnreachable(_ error: RedisError) {
        failWaiters(InterlockError(error)) { [self] name in
            let key = runtime.keys.lock(name)
            return !pipeline.reaches(key) || !runtime.pipeline.reaches(key)
        }
    }

    /// Nobody is left waiting for the locks that `isConcerned`, by their names.
    func failWaiters(_ error: InterlockError, where isConcerned: (String) -> Bool = { _ in true }) {
        let all = (Array(waiters.values) + Array(trying.values)).sorted { $0.id < $1.id }
        let failed = all.filter { isConcerned($0.request.name.text) }
        for waiter in failed {
            waiters[waiter.id] = nil
            trying[waiter.id] = nil
        }
        for queue in queuesInOrder where isConcerned(queue.name) {
            queue.timer?.cancel()
            withdraw(queue)
            forget(queue)
        }
        for waiter in failed {
            waiter.standing = .left
            waiter.timeout?.cancel()
            fail(waiter, error)
            if waiter.mayHold { remember(waiter) }
        }
    }
}
