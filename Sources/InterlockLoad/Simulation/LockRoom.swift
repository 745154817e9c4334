internal import Interlock
internal import InterlockCore

/// The locks of a simulated sidecar: carries out what `LockQueue` decides, as `LockCoordinator` does.
final class LockRoom: SidecarRoom {
    /// As `LockSettings` has it.
    static let maximumWait = LockSettings().maximumWait.wholeMilliseconds

    unowned let sidecar: SimulatedSidecar
    let locks: [SimulatedLock]
    private var queues: [LocalLockQueue?]
    private(set) var waiters: [LockQueue.WaiterID: LockWish] = [:]
    /// Those who try once before they wait.
    private var trying: [LockQueue.WaiterID: LockWish] = [:]
    private var lastID: LockQueue.WaiterID = 0
    private let numbers: [String: Int]
    private(set) lazy var keeper = SimulatedLeaseKeeper(room: self)
    /// Leases that an unanswered acquire may have left behind, until they are known to be gone.
    var leftovers: [(lock: SimulatedLock, token: String, until: Instant)] = []

    init(sidecar: SimulatedSidecar, locks: [SimulatedLock]) {
        self.sidecar = sidecar
        self.locks = locks
        queues = Array(repeating: nil, count: locks.count)
        numbers = Dictionary(uniqueKeysWithValues: locks.flatMap { [($0.keys.name, $0.number), ($0.keys.lock, $0.number)] })
    }

    var world: SimulatedWorld { sidecar.world }
    var now: Instant { sidecar.now }
    func queue(_ lock: SimulatedLock) -> LocalLockQueue? { queues[lock.number] }

    // MARK: Acquire

    /// Takes a lock, or waits for it. Returns an ID by which the wait can be given up.
    /// - Parameter owner: the token that its owner chose.
    func acquire(
        _ lock: SimulatedLock, mode: LockMode, ttl: Int64, wait: Int64, owner: String? = nil,
        answer: @escaping (LockWish.Answer) -> Bool
    ) -> LockQueue.WaiterID {
        lastID += 1
        let wish = LockWish(
            id: lastID, lock: lock, mode: mode, ttl: ttl, wait: wait,
            token: owner ?? OwnerToken.make(label: "sim", random: world.drawPair()), isOwners: owner != nil, startedAt: now,
            answer: answer)
        switch (queue(lock) != nil, wait > 0, owner != nil) {
        case (false, false, _): attemptOnce(wish, onlyOwner: false)
        case (true, false, false): _ = wish.answer(.held)
        case (true, let waits, true): attemptOnce(wish, onlyOwner: true, orWaits: waits)
        case (_, true, _): enqueue(wish)
        }
        return wish.id
    }

    /// Gives up a wait: there is no answer any more, and what is granted meanwhile is given back.
    func cancel(_ id: LockQueue.WaiterID) {
        if let wish = trying.removeValue(forKey: id) {
            wish.standing = .left
        } else if let wish = waiters.removeValue(forKey: id) {
            leave(wish)
        }
    }

    private func attemptOnce(_ wish: LockWish, onlyOwner: Bool, orWaits: Bool = false) {
        let sentAt = now
        if orWaits { trying[wish.id] = wish }
        run(wish, onlyOwner: onlyOwner) { [self] result in
            if orWaits { trying[wish.id] = nil }
            switch result {
            case .success(.granted(let fence, let group)), .success(.extended(let fence, let group)):
                handOut(fence, group, to: wish, sentAt: sentAt)
            case .success(.held):
                guard wish.standing == .waiting else { return }
                if orWaits { enqueue(wish) } else { _ = wish.answer(.held) }
            case .success(.heldOtherwise):
                fail(wish, code: Self.invalid)
            case .failure(let error):
                fail(wish, code: Self.unavailable)
                if error.isOutcomeUnknown { giveBack(wish) }
            }
        }
    }

    private func run(
        _ wish: LockWish, onlyOwner: Bool = false, ticket: LockTicket? = nil,
        completion: @escaping (Result<AcquireReply, LostAnswer>) -> Void
    ) {
        let (keys, token, ttl) = (wish.lock.keys, wish.token, wish.ttl)
        let places: Int64
        switch wish.mode {
        case .exclusive:
            return sidecar.redis.run(
                .acquire, { $0.acquire(keys, token: token, ttl: ttl, onlyOwner: onlyOwner, ticket: ticket) },
                completion: completion)
        case .shared: places = 0
        case .permits(let count): places = Int64(count)
        }
        let group = OwnerToken.make(label: wish.mode.groupLabel ?? "", random: world.drawPair())
        sidecar.redis.run(
            .share,
            { $0.share(keys, token: token, ttl: ttl, onlyOwner: onlyOwner, ticket: ticket, places: places, group: group) },
            completion: completion)
    }

    // MARK: Handing out

    static let unavailable = "UNAVAILABLE"
    static let invalid = "INVALID"

    /// Hands the lease out, unless it is over already or its caller has left: then the next has it.
    func handOut(_ fence: Int64, _ group: String?, to wish: LockWish, sentAt: Instant) {
        let valid = LeaseValidity.remaining(ttl: wish.ttl, sentAt: sentAt, now: now)
        guard valid > 0 else { return fail(wish, code: Self.unavailable) }
        let grant = LeaseGrant(
            token: wish.token, fence: fence, validFor: valid,
            deadline: LeaseValidity.deadline(ttl: wish.ttl, sentAt: sentAt), group: group)
        // It may be followed already, for an earlier call of the same owner.
        if wish.isOwners { keeper.moved(wish.lock, token: wish.token, to: grant.deadline) }
        if !wish.answer(.granted(grant)) { giveBack(wish) }
    }

    private func fail(_ wish: LockWish, code: String) {
        _ = wish.answer(.failed(code: code))
    }

    // MARK: Waiting

    private func enqueue(_ wish: LockWish) {
        let deadline = wish.startedAt.advanced(byMilliseconds: min(wish.wait, Self.maximumWait))
        guard deadline > now else {
            _ = wish.answer(.held)
            return
        }
        wish.timeout = sidecar.timer(at: deadline) { [unowned self] in timeOut(wish) }
        waiters[wish.id] = wish
        let queue = queue(wish.lock) ?? openQueue(wish.lock)
        perform(queue.decisions.enqueue(.init(id: wish.id, deadline: deadline)), on: queue)
    }

    private func openQueue(_ lock: SimulatedLock) -> LocalLockQueue {
        let queue = LocalLockQueue(lock: lock, ticket: OwnerToken.make(label: sidecar.id, random: world.drawPair()))
        queues[lock.number] = queue
        return queue
    }

    private func timeOut(_ wish: LockWish) {
        guard waiters.removeValue(forKey: wish.id) != nil else { return }
        if queue(wish.lock)?.hasFailed ?? false {
            fail(wish, code: Self.unavailable)
        } else {
            _ = wish.answer(.held)
        }
        leave(wish)
    }

    private func leave(_ wish: LockWish) {
        wish.standing = .left
        if let timeout = wish.timeout { world.cancel(timeout) }
        if let queue = queue(wish.lock) {
            let wasHead = queue.decisions.head == wish.id
            perform(queue.decisions.remove(wish.id).next, on: queue)
            // A reader may have waited behind this writer only.
            if wasHead, wish.mode == .exclusive, headMode(of: queue) == .shared {
                perform(queue.decisions.wake(), on: queue)
            }
        }
        if wish.mayHold { giveBack(wish) }
    }

    /// A waiter's turn has come: it waits no more. `false`: it has left, or has the lock already.
    func serve(_ wish: LockWish) -> Bool {
        guard wish.standing == .waiting else { return false }
        wish.standing = .served
        if let timeout = wish.timeout { world.cancel(timeout) }
        waiters[wish.id] = nil
        return true
    }

    func perform(_ action: LockQueue.Action, on queue: LocalLockQueue) {
        switch action {
        case .none:
            break
        case .drop(let hasTicket):
            // Whoever was told something meanwhile may have come back at once.
            guard queue.decisions.count == 0 else { break }
            cancelTimer(of: queue)
            if self.queue(queue.lock) === queue { queues[queue.lock.number] = nil }
            if hasTicket { withdraw(queue) }
        case .armTimer(let instant):
            cancelTimer(of: queue)
            queue.timer = sidecar.timer(at: instant) { [unowned self] in
                queue.timer = nil
                perform(queue.decisions.timerFired(now: now), on: queue)
            }
        case .attempt(let id):
            attempt(id, in: queue)
        case .look:
            look(at: queue)
        }
    }

    private func cancelTimer(of queue: LocalLockQueue) {
        if let timer = queue.timer { world.cancel(timer) }
        queue.timer = nil
    }

    private func headMode(of queue: LocalLockQueue) -> LockMode {
        queue.decisions.head.flatMap { waiters[$0]?.mode } ?? .exclusive
    }

    private func withdraw(_ queue: LocalLockQueue) {
        withdraw(queue.ticket, of: queue.lock)
    }

    private func withdraw(_ ticket: String, of lock: SimulatedLock) {
        let id = sidecar.id
        sidecar.redis.run(.leave, { $0.leave(lock.keys, ticket: ticket, sidecar: id) }, completion: { _ in })
    }

    private func look(at queue: LocalLockQueue) {
        sidecar.watch.remaining(of: queue.lock.keys.lock) { [self] result in
            let finding: LockQueue.Finding =
                switch result {
                case .success(-2): .free
                case .success(-1): .held(ttl: nil)
                case .success(let ttl): .held(ttl: ttl)
                case .failure: .unknown
                }
            perform(queue.decisions.looked(finding, now: now), on: queue)
        }
    }

    private func attempt(_ id: LockQueue.WaiterID, in queue: LocalLockQueue) {
        guard let wish = waiters[id] else { return perform(queue.decisions.failed(id), on: queue) }
        cancelTimer(of: queue)
        let sentAt = now
        let ticket = queue.ticket(hasOthers: queue.decisions.beginAttempt(), now: sentAt)
        run(wish, ticket: ticket) { [self] result in
            attempted(wish, in: queue, result, sentAt: sentAt)
        }
    }

    private func attempted(
        _ wish: LockWish, in queue: LocalLockQueue, _ result: Result<AcquireReply, LostAnswer>, sentAt: Instant
    ) {
        queue.hasFailed = false
        switch result {
        case .success(.granted(let fence, let group)), .success(.extended(let fence, let group)):
            let isOvertaken = wish.standing == .served
            let next =
                isOvertaken
                ? queue.decisions.overtaken(wish.id, now: now) : queue.decisions.granted(wish.id, ttl: wish.ttl, now: now)
            if !isOvertaken { queue.holder = wish.token }
            if serve(wish) {
                handOut(fence, group, to: wish, sentAt: sentAt)
            } else if !isOvertaken {
                giveBack(wish)
            }
            perform(next, on: queue)
            wakeSameOwner(as: wish, in: queue)
        case .success(.held(let ttl, let place)):
            wish.mayHold = false
            perform(
                queue.decisions.refused(
                    wish.id, ttl: ttl == -1 ? nil : max(0, ttl), place: place < 0 ? nil : Int(place), now: now), on: queue)
        case .success(.heldOtherwise):
            if serve(wish) { fail(wish, code: Self.invalid) }
            perform(queue.decisions.failed(wish.id), on: queue)
        case .failure(.notConnected), .failure(.connectionLost):
            queue.hasFailed = true
            // The same token tries again once Redis is back: if this attempt had won, that one finds it.
            if case .failure(.connectionLost) = result { doubt(wish) }
            perform(queue.decisions.unanswered(wish.id, now: now), on: queue)
        case .failure(.timedOut):
            if serve(wish) { fail(wish, code: Self.unavailable) }
            giveBack(wish)
            perform(queue.decisions.failed(wish.id), on: queue)
        }
    }

    /// A retry may stand behind its own first call: what that one got is its too.
    func wakeSameOwner(as wish: LockWish, in queue: LocalLockQueue) {
        guard wish.isOwners, let head = queue.decisions.head, waiters[head]?.token == wish.token else { return }
        perform(queue.decisions.wake(), on: queue)
    }

    /// Nobody knows whether it was granted the lock: should it leave before that is known, it gives it back.
    func doubt(_ wish: LockWish) {
        if wish.standing == .left { giveBack(wish) } else { wish.mayHold = true }
    }

    func remember(_ lock: SimulatedLock, token: String, until: Instant) {
        leftovers.append((lock, token, until))
    }

    // MARK: News

    func lookAgain() {
        for queue in queues {
            if let queue { perform(queue.decisions.wake(), on: queue) }
        }
    }

    /// The lock may be free.
    func wake(_ lock: SimulatedLock) {
        if let queue = queue(lock) { perform(queue.decisions.wake(), on: queue) }
    }

    func received(_ message: ModelRedis.Message) {
        guard message.channel != sidecar.keys.events, let hint = WakeHint(message.text), let number = numbers[hint.lock] else {
            return
        }
        let queue = queues[number]
        switch hint.what {
        case .turn:
            guard let queue, queue.ticket == hint.ticket else {
                // Nobody waits behind that ticket any more: the next is not kept waiting.
                return withdraw(hint.ticket, of: locks[number])
            }
            perform(queue.decisions.wake(), on: queue)
        case .first:
            guard let queue else { return }
            // The lock's own time says nothing of a place that is kept for another.
            let isForPlace = headMode(of: queue).isSemaphore
            perform(isForPlace ? queue.decisions.isFirstForPlace(now: now) : queue.decisions.isFirst(now: now), on: queue)
        case .look:
            wake(locks[number])
        }
    }

    func keyChanged(_ key: String?) {
        guard let key else {
            for queue in queues {
                if let queue { perform(queue.decisions.changed(now: now), on: queue) }
            }
            return keeper.changed(nil)
        }
        guard let number = numbers[key] else { return }
        keeper.changed(number)
        guard let queue = queues[number] else { return }
        perform(queue.decisions.changed(now: now), on: queue)
    }

    /// Redis has been away for too long: nobody is left waiting without an answer.
    func redisIsAway() {
        let failed =
            waiters.values.sorted { $0.id < $1.id } + trying.values.sorted { $0.id < $1.id }
        waiters = [:]
        trying = [:]
        let dropped = queues
        queues = Array(repeating: nil, count: locks.count)
        for case let queue? in dropped {
            cancelTimer(of: queue)
            withdraw(queue)
        }
        for wish in failed {
            wish.standing = .left
            if let timeout = wish.timeout { world.cancel(timeout) }
            fail(wish, code: Self.unavailable)
            if wish.mayHold, !wish.isOwners {
                remember(wish.lock, token: wish.token, until: now.advanced(byMilliseconds: wish.ttl))
            }
        }
    }
}
