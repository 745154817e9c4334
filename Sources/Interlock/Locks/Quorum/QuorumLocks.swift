internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Locks on a majority of independent Redis servers. Confined to the coordinator's event loop.
///
/// The calls are those of `LockCoordinator`. A waiter is not woken by other sidecars: it tries again after random pauses.
final class QuorumLocks: LockProvider {
    typealias WaiterID = QuorumLine.WaiterID

    private struct Waiter {
        var request: LockRequest
        var completion: Completion<LockAnswer>
        var startedAt: Instant
        var deadline: Instant
        var timeout: Deadlines.Entry?
        /// Its wait is over, and an attempt is under way for it: that decides its answer.
        var isOverdue = false
    }

    /// What several calls of one owner have in common that were sent one after the other.
    private struct AskedFor: Hashable {
        var name: ExactText
        var owner: ExactText
        var ttl: Int64
        /// How it is asked for; `nil`: it waits.
        var candidate: QuorumAcquireScript.Candidate?

        init(_ request: LockRequest, owner: String, _ candidate: QuorumAcquireScript.Candidate? = nil) {
            name = ExactText(request.name.text)
            self.owner = ExactText(owner)
            ttl = request.ttl
            self.candidate = candidate
        }
    }

    private struct Line {
        var decisions = QuorumLine()
        var timer: Deadlines.Entry?
        /// Since when no attempt had an answer of a majority; `nil`: the last one had.
        var unavailableSince: Instant?
    }

    /// Those who wait beyond it are refused.
    private static let waiterCapacity = 100_000

    let runtime: CoordinatorRuntime
    let settings: LockSettings
    let servers: QuorumServers
    let scripts: LockScripts
    var leases = LeaseTable()
    private var lines: [ExactText: Line] = [:]
    /// Those who try before they wait, or without waiting.
    private var trying: [WaiterID: Waiter] = [:]
    /// Those of them that have one answer.
    private var alike: [AskedFor: [WaiterID]] = [:]
    private var waiters: [WaiterID: Waiter] = [:]
    private var lastID: WaiterID = 0
    var nextReview: Deadlines.Entry?

    /// It does nothing before `start`.
    init(runtime: CoordinatorRuntime, settings: LockSettings, scripts: LockScripts, servers: [RedisConfiguration]) {
        self.runtime = runtime
        self.settings = settings
        self.scripts = scripts
        self.servers = QuorumServers(runtime: runtime, configurations: servers)
    }

    var waiting: Int { waiters.count }
    func held(now: Instant) -> Int { leases.count(now: now) }
    var history: GrantHistory { leases.history }
    var commandsSent: Int64 { servers.commandsSent }
    /// So many commands await the replies of so many servers that no majority answers soon.
    func isBusy(from awaited: Int) -> Bool { servers.isBusy(from: awaited) }
    /// Whether a majority of the servers is connected.
    var isReachable: Bool { servers.reachable >= servers.majority }
    func waiting(for name: String) -> Int { lines[ExactText(name)]?.decisions.count ?? 0 }

    // MARK: Life

    /// Begins to connect.
    func start() {
        servers.start()
    }

    /// Nobody is left waiting.
    func drain() {
        failWaiters(.goingDown)
    }

    /// Disconnects for good.
    func close() -> EventLoopFuture<Void> {
        servers.close()
    }

    // MARK: Acquire

    /// Takes a lock, or waits for it. Returns an ID by which the wait can be given up.
    func acquire(_ request: LockRequest, completion: Completion<LockAnswer>) -> WaiterID {
        lastID += 1
        let id = lastID
        if let wrong = settings.violation(in: request) {
            completion(.failed(wrong))
            return id
        }
        let now = runtime.time.now()
        let wait = min(request.wait, settings.maximumWait.wholeMilliseconds)
        let waiter = Waiter(
            request: request, completion: completion, startedAt: now, deadline: now.advanced(byMilliseconds: wait))
        let othersWait = lines[ExactText(request.name.text)] != nil
        switch (othersWait, wait > 0, request.owner != nil) {
        case (false, false, _):
            attemptOnce(waiter, id: id, .anybody, mayWait: false)
        case (true, false, false):
            refuse(waiter)
        case (true, _, true):
            // Its owner may have it already; otherwise those who wait come first.
            attemptOnce(waiter, id: id, .presentOwner, mayWait: wait > 0)
        case (_, true, _):
            enqueue(waiter, id: id)
        }
        return id
    }

    /// Gives up a wait: the completion is not called any more, and what is granted meanwhile is given back.
    func cancel(_ id: WaiterID) {
        trying[id] = nil
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        waiter.timeout?.cancel()
        leave(waiter, id: id)
    }

    /// A try that nobody queues behind; of several who ask at once and get nothing each tries again a few times. A call that is
    /// sent again meanwhile, with the same owner, is one with it: both have one answer.
    private func attemptOnce(
        _ waiter: Waiter, id: WaiterID, _ candidate: QuorumAcquireScript.Candidate, mayWait: Bool
    ) {
        trying[id] = waiter
        let asked = mayWait ? nil : waiter.request.owner.map { AskedFor(waiter.request, owner: $0, candidate) }
        if let asked {
            if alike[asked] != nil {
                alike[asked]?.append(id)
                return
            }
            alike[asked] = [id]
        }
        /// Those whom nobody wants any more, or who have their answer, are no longer here.
        func isWanted() -> Bool { (asked.flatMap { alike[$0] } ?? [id]).contains { trying[$0] != nil } }
        attemptOnce(waiter, candidate, mayTryAgain: !mayWait, tries: 1, isWanted: isWanted) { [self] attempt, outcome in
            let calls = asked.map { alike.removeValue(forKey: $0) ?? [] } ?? [id]
            var isDelivered = false
            for id in calls {
                guard let waiter = trying.removeValue(forKey: id) else { continue }
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
        _ waiter: Waiter, _ candidate: QuorumAcquireScript.Candidate, mayTryAgain: Bool, tries: Int,
        isWanted: @escaping () -> Bool, completion: @escaping (QuorumAttempt, QuorumAttempt.Outcome) -> Void
    ) {
        let startedAt = runtime.time.now()
        attempt(waiter, candidate) { [self] attempt, outcome in
            guard case .contended = outcome, mayTryAgain, tries < QuorumRetry.mostTries else {
                return completion(attempt, outcome)
            }
            let now = runtime.time.now()
            let next = QuorumRetry.nextTry(
                after: now, took: now.nanoseconds - startedAt.nanoseconds, tries: tries,
                random: .random(in: 0...1, using: &runtime.entropy))
            runtime.deadlines.schedule(at: next) { [unowned self] in
                // Those who wait meanwhile come first.
                let mayGoOn = isWanted() && lines[ExactText(waiter.request.name.text)] == nil
                guard mayGoOn || candidate == .presentOwner else { return completion(attempt, .held) }
                attemptOnce(
                    waiter, candidate, mayTryAgain: true, tries: tries + 1, isWanted: isWanted, completion: completion)
            }
        }
    }

    /// Each attempt has a token of its own, unless the owner chose it: what is cleared away after one never ends what another
    /// was granted.
    private func attempt(
        _ waiter: Waiter, _ candidate: QuorumAcquireScript.Candidate,
        completion: @escaping (QuorumAttempt, QuorumAttempt.Outcome) -> Void
    ) {
        let asked = QuorumAttempt.Request(
            name: waiter.request.name.text, token: runtime.token(for: waiter.request), ttl: waiter.request.ttl,
            isOwners: waiter.request.owner != nil, candidate: candidate)
        QuorumAttempt(asked, servers: servers, scripts: scripts, runtime: runtime, completion: completion).start()
    }

    /// Hands the lease out. `false`: the caller has left, and the lease is nobody's.
    private func deliver(_ fence: Int64, valid: Int64, to waiter: Waiter, by attempt: QuorumAttempt) -> Bool {
        let now = runtime.time.now()
        let lease = Lease(
            name: waiter.request.name.text, token: attempt.request.token, fence: fence, validMilliseconds: valid,
            ttlMilliseconds: waiter.request.ttl, deadline: now.advanced(byMilliseconds: valid),
            isOwners: waiter.request.owner != nil)
        guard waiter.completion(.granted(lease)) else { return false }
        runtime.metrics.locksGranted.increment()
        runtime.metrics.acquireTime.recordNanoseconds(now.nanoseconds - waiter.startedAt.nanoseconds)
        leases.granted(lease, to: waiter.request, startedAt: waiter.startedAt, now: now, host: runtime.host)
        planReview()
        return true
    }

    private func refuse(_ waiter: Waiter) {
        runtime.metrics.locksHeld.increment()
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
        perform(lines[ExactText(name), default: Line()].decisions.enqueue(id), on: name)
    }

    /// Its wait is over. An attempt under way, for it or for another copy of its call, may still grant it the lock, and comes to its end
    /// in bounded time: until then nobody can say that it has not got it.
    private func timeOut(_ id: WaiterID) {
        guard let waiter = waiters[id] else { return }
        let line = lines[ExactText(waiter.request.name.text)]
        guard ([id] + mates(of: waiter, id)).contains(where: { line?.decisions.isAttempting($0) == true }) else {
            return giveUp(id, because: nil)
        }
        waiters[id]?.isOverdue = true
    }

    /// An attempt for `waiter` did not grant it the lock: waits that are overdue end, its own and those of other copies of its call.
    private func stayed(_ waiter: Waiter, _ id: WaiterID, because error: InterlockError?) {
        for overdue in mates(of: waiter, id) + [id] where waiters[overdue]?.isOverdue == true {
            giveUp(overdue, because: error)
        }
    }

    /// - Parameter error: why nobody can say whether the lock is held; `nil`: it is.
    private func giveUp(_ id: WaiterID, because error: InterlockError?) {
        guard let waiter = waiters.removeValue(forKey: id) else { return }
        if let error { fail(waiter, error) } else { refuse(waiter) }
        leave(waiter, id: id)
    }

    private func leave(_ waiter: Waiter, id: WaiterID) {
        let name = waiter.request.name.text
        guard let next = lines[ExactText(name)]?.decisions.remove(id) else { return }
        perform(next, on: name)
    }

    /// The lock may be free.
    func wake(_ name: String) {
        guard let next = lines[ExactText(name)]?.decisions.wake() else { return }
        perform(next, on: name)
    }

    /// Nobody is left waiting without an answer. Attempts under way come to their end, and free what they are granted.
    func failWaiters(_ error: InterlockError) {
        let failed = (Array(waiters) + Array(trying)).sorted { $0.key < $1.key }
        waiters = [:]
        trying = [:]
        for line in lines.values { line.timer?.cancel() }
        lines = [:]
        for (_, waiter) in failed {
            waiter.timeout?.cancel()
            fail(waiter, error)
        }
    }

    private func perform(_ action: QuorumLine.Action, on name: String) {
        switch action {
        case .none:
            break
        case .drop:
            lines.removeValue(forKey: ExactText(name))?.timer?.cancel()
        case .pause(let id):
            pause(id, on: name)
        case .attempt(let id):
            attempt(id, on: name)
        }
    }

    private func pause(_ id: WaiterID, on name: String) {
        lines[ExactText(name)]?.timer?.cancel()
        lines[ExactText(name)]?.timer = nil
        guard let waiter = waiters[id] else { return }
        let next = QuorumRetry.nextAttempt(
            after: runtime.time.now(), deadline: waiter.deadline, random: .random(in: 0...1, using: &runtime.entropy))
        guard let next else { return }
        let timer = runtime.deadlines.schedule(at: next) { [unowned self] in
            guard let next = lines[ExactText(name)]?.decisions.timerFired() else { return }
            perform(next, on: name)
        }
        lines[ExactText(name)]?.timer = timer
    }

    private func attempt(_ id: WaiterID, on name: String) {
        guard let waiter = waiters[id] else { return }
        lines[ExactText(name)]?.timer?.cancel()
        attempt(waiter, .anybody) { [self] attempt, outcome in
            switch outcome {
            case .granted(let fence, let valid):
                granted(fence, valid: valid, id, waiter, by: attempt)
            case .held, .contended:
                lines[ExactText(name)]?.unavailableSince = nil
                stayed(waiter, id, because: nil)
                guard let next = lines[ExactText(name)]?.decisions.refused(id) else { return }
                perform(next, on: name)
            case .unavailable(let error):
                stayed(waiter, id, because: error)
                unavailable(error, id, on: name)
            }
        }
    }

    private func granted(_ fence: Int64, valid: Int64, _ id: WaiterID, _ waiter: Waiter, by attempt: QuorumAttempt) {
        let name = waiter.request.name.text
        lines[ExactText(name)]?.unavailableSince = nil
        // What one copy of a call has got is the other copies' too, which were sent again. They leave while the attempt still counts as
        // under way: so nobody else begins one.
        var copies: [Waiter] = []
        for mate in lines[ExactText(name)]?.decisions.isAttempting(id) == true ? mates(of: waiter, id) : [] {
            guard let copy = waiters.removeValue(forKey: mate) else { continue }
            copy.timeout?.cancel()
            _ = lines[ExactText(name)]?.decisions.remove(mate)
            copies.append(copy)
        }
        guard let (isWanted, next) = lines[ExactText(name)]?.decisions.granted(id) else { return attempt.abandon() }
        if isWanted { waiters.removeValue(forKey: id)?.timeout?.cancel() }
        var isDelivered = isWanted && deliver(fence, valid: valid, to: waiter, by: attempt)
        for copy in copies { isDelivered = deliver(fence, valid: valid, to: copy, by: attempt) || isDelivered }
        perform(next, on: name)
        guard !isDelivered else { return }
        // It left meanwhile. Freed first, so that the next one here finds it free.
        attempt.abandon()
        stayed(waiter, id, because: nil)
        wake(name)
    }

    /// The others who wait for the same under the same owner. O(waiters) for an owner's grant.
    private func mates(of waiter: Waiter, _ id: WaiterID) -> [WaiterID] {
        guard let owner = waiter.request.owner, let line = lines[ExactText(waiter.request.name.text)] else { return [] }
        let asked = AskedFor(waiter.request, owner: owner)
        return line.decisions.all.filter { other in
            other != id
                && waiters[other].map { other in other.request.owner.map { AskedFor(other.request, owner: $0) } == asked }
                    ?? false
        }
    }

    /// A short loss goes unnoticed; after `redis.timeout` the waiter is told.
    private func unavailable(_ error: InterlockError, _ id: WaiterID, on name: String) {
        guard let line = lines[ExactText(name)] else { return }
        let now = runtime.time.now()
        let since = line.unavailableSince ?? now
        lines[ExactText(name)]?.unavailableSince = since
        let next: QuorumLine.Action?
        if now < since.advanced(byMilliseconds: runtime.timeoutMilliseconds) {
            next = lines[ExactText(name)]?.decisions.refused(id)
        } else {
            if let waiter = waiters.removeValue(forKey: id) {
                waiter.timeout?.cancel()
                fail(waiter, error)
            }
            next = lines[ExactText(name)]?.decisions.failed(id)
        }
        if let next { perform(next, on: name) }
    }
}
