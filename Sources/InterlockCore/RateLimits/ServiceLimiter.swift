internal import DequeModule

/// The limits of one service within one sidecar: which calls travel together, who waits, and what is already known.
///
/// One batch is under way; a second one follows it where both are work enough for Redis, and nobody in them waits. Calls that arrive
/// meanwhile form the next one; a call that waits for its turn is never overtaken by a later one that needs the same counter. The caller
/// asks `nextBatch` at the end of its tick, has the script judge it, and hands the verdict to `settle`.
///
/// Where `sidecars` is asked for, it is how many of the fleet may be at the same limits; see `TurnSharing`.
package struct ServiceLimiter: Sendable {
    /// What the caller is to do with a call that just came.
    package enum Admission: Equatable, Sendable {
        /// Known without Redis.
        case answered(LimitAnswer)
        /// It travels with the next batch.
        case queued
        /// It waits for its turn, and would be told this if it did not; see `nextWakeUp`.
        case waiting(LimitAnswer)
        /// No limit of the service applies to it: there is nothing to take from.
        case unlimited
    }

    private struct BindingLimit: Sendable {
        var definition: Int
        var isPerSubject: Bool
    }

    struct Waiter: Sendable {
        var request: LimitRequest
        var deadline: Instant
        var binding: RefusalMemory.CounterID
        /// Its place in the order of arrival.
        var sequence: UInt64
    }

    package private(set) var definitions: [LimitDefinition]
    package let maximumWaiting: Int
    let serviceWide: [Int]
    let perSubject: [Int]
    /// The limits that may refuse somebody.
    private let binding: [BindingLimit]
    /// What waits for the next batch.
    var arrived: ServiceBatch
    /// In the order of arrival.
    var waiting: Deque<Waiter> = []
    private var waitingSubjects = SubjectTally()
    private var inFlight: [ServiceBatch] = []
    private var batchCount: UInt64 = 0
    var refusals = RefusalMemory()
    var windowEnds = WindowEnds()
    var notices: LimitNotices
    private var nextSequence: UInt64 = 0

    package init(definitions: [LimitDefinition], maximumWaiting: Int) {
        self.definitions = definitions
        self.maximumWaiting = maximumWaiting
        serviceWide = definitions.indices.filter { !definitions[$0].isPerSubject }
        perSubject = definitions.indices.filter { definitions[$0].isPerSubject }
        binding = definitions.indices.filter { !definitions[$0].isShadow }
            .map { BindingLimit(definition: $0, isPerSubject: definitions[$0].isPerSubject) }
        arrived = ServiceBatch(definitions: definitions, wide: serviceWide, narrow: perSubject)
        notices = LimitNotices(definitions: definitions)
    }

    package var waitingCount: Int { waiting.count }
    /// Whether the next batch need not wait for the verdict on the one before it. While Redis judges that, this sidecar makes the next
    /// one; what is quick to judge waits instead, and grows.
    package var mayFlush: Bool {
        guard let last = inFlight.last else { return true }
        return inFlight.count < Self.mostInFlight && arrived.limits.runs.count >= Self.worthFollowing
            && !arrived.hasWaiters && waiting.isEmpty && !last.hasWaiters
    }
    private static let mostInFlight = 2
    private static let worthFollowing = 64
    /// Calls that came travel with the next batch.
    package var hasArrivals: Bool { !arrived.isEmpty }
    /// So many requests are still to be asked about that answering them keeps everybody else waiting for half a millisecond.
    package var isBackedUp: Bool { arrived.requests.count >= Self.backlog }
    private static let backlog = 96

    /// A call arrives. O(limits of the service).
    package mutating func admit(_ request: LimitRequest, now: Instant) -> Admission {
        let hasSubject = request.subject != nil && !perSubject.isEmpty
        guard !serviceWide.isEmpty || hasSubject else { return .unlimited }
        if let answer = unsatisfiable(request, hasSubject: hasSubject) { return .answered(answer) }
        if !refusals.isEmpty, let known = knownRefusal(of: request, now: now) {
            if let deadline = request.deadline, known.until <= deadline, hasPlace(for: request) {
                insert(Waiter(request: request, deadline: deadline, binding: known.counter, sequence: takeSequence()))
                return .waiting(known.answer)
            }
            return .answered(known.answer)
        }
        arrived.append(request, sequence: takeSequence())
        return .queued
    }

    /// The calls to be judged next, oldest first; `nil` unless `mayFlush`, or when there is nothing to ask.
    package mutating func nextBatch(now: Instant, sidecars: Int = 1) -> ServiceBatch? {
        guard mayFlush else { return nil }
        var batch = arrived
        if waiting.isEmpty {
            guard !batch.isEmpty else { return nil }
            arrived = batch.successor(of: emptyBatch)
        } else {
            batch = joinedByWaiters(now: now, sidecars: sidecars)
            guard !batch.isEmpty else { return nil }
        }
        if batch.limits.isFull { batch = firstPart(of: batch) }
        batch.note(windowEnds)
        batchCount += 1
        batch.number = batchCount
        inFlight.append(batch)
        return batch
    }

    /// A batch under way has no verdict: its calls are for the caller to answer.
    package mutating func abandon(_ batch: ServiceBatch) { _ = removeFromFlight(batch) }

    /// Returns `false` if the batch is not under way.
    mutating func removeFromFlight(_ batch: ServiceBatch) -> Bool {
        guard let index = inFlight.firstIndex(where: { $0.number == batch.number }) else { return false }
        inFlight.remove(at: index)
        return true
    }

    /// When `nextBatch` and `expire` want to be called next because of those who wait; `nil`: nobody waits.
    /// O(waiting).
    package func nextWakeUp(now: Instant) -> Instant? {
        waiting.map { min($0.deadline, refusals[$0.binding]?.releaseAt ?? now) }.min()
    }

    /// Answers those whose wait is over. O(waiting).
    package mutating func expire(now: Instant, into settlements: inout [Settlement]) {
        guard waiting.contains(where: { $0.deadline <= now }) else { return }
        let leaving = waiting.filter { $0.deadline <= now }
        waiting.removeAll { $0.deadline <= now }
        var left: [RefusalMemory.CounterID: Int64] = [:]
        for waiter in leaving {
            leave(waiter)
            left[waiter.binding] = max(left[waiter.binding] ?? 0, waiter.request.cost)
        }
        for waiter in leaving {
            settlements.append(Settlement(id: waiter.request.id, answer: answerOnLeaving(waiter, now: now), place: nil))
        }
        releaseThoseBehind(left)
    }

    /// A caller left. `false`: it is not waiting here; its answer is on the way.
    package mutating func remove(_ id: Int) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.request.id == id }) else { return false }
        let waiter = waiting.remove(at: index)
        leave(waiter)
        releaseThoseBehind([waiter.binding: waiter.request.cost])
        return true
    }

    /// Everyone who waits leaves: their marks, for the caller to answer.
    package mutating func removeWaiting() -> [Int] {
        defer { waiting.removeAll() }
        for waiter in waiting { leave(waiter) }
        return waiting.map(\.request.id)
    }

    /// Something was given back to a limit: what was refused may now be granted.
    package mutating func gaveBack(definition: Int, subject: String?) {
        refusals.forget(RefusalMemory.CounterID(definition: definition, subject: subject))
    }

    /// Redis has been away: what was refused may now be granted, and windows may have been lost with their ends.
    package mutating func forgetRefusals() {
        refusals.forgetAll()
        windowEnds = WindowEnds()
    }

    /// What there is to tell of the limits since this was last asked.
    package mutating func removeNotices() -> [LimitNotices.Notice] {
        notices.pending.isEmpty ? [] : notices.removePending()
    }

    /// The service's limits changed: what is remembered no longer holds, and those who wait are judged anew, in order.
    package func redefined(definitions: [LimitDefinition], maximumWaiting: Int) -> ServiceLimiter {
        var next = ServiceLimiter(definitions: definitions, maximumWaiting: maximumWaiting)
        next.inFlight = inFlight
        next.batchCount = batchCount
        next.nextSequence = nextSequence
        for waiter in waiting { next.arrived.append(waiter.request, sequence: waiter.sequence) }
        for (request, sequence) in arrived.calls { next.arrived.append(request, sequence: sequence) }
        return next
    }
}

// MARK: - The queue

extension ServiceLimiter {
    private var emptyBatch: ServiceBatch {
        ServiceBatch(definitions: definitions, wide: serviceWide, narrow: perSubject)
    }

    /// Returns the calls that have arrived, and leaves none.
    mutating func removeArrivals() -> ServiceBatch {
        defer { arrived = emptyBatch }
        return arrived
    }

    private mutating func takeSequence() -> UInt64 {
        nextSequence += 1
        return nextSequence
    }

    /// Whether one more may wait.
    func hasPlace(for request: LimitRequest) -> Bool {
        waiting.count < maximumWaiting && waitingSubjects.hasRoom(for: request.subject, of: maximumWaiting)
    }

    /// Keeps `waiting` in order of arrival. O(1) for a newcomer.
    mutating func insert(_ waiter: Waiter) {
        waitingSubjects.add(waiter.request.subject)
        refusals.changeWaiters(of: waiter.binding, by: 1, cost: waiter.request.cost)
        var place = waiting.count
        while place > 0, waiting[place - 1].sequence > waiter.sequence { place -= 1 }
        waiting.insert(waiter, at: place)
    }

    private mutating func leave(_ waiter: Waiter) {
        waitingSubjects.remove(waiter.request.subject)
        refusals.changeWaiters(of: waiter.binding, by: -1, cost: waiter.request.cost)
    }

    /// Calls of up to these costs left the queue: there may be room for smaller ones that stood behind them. O(waiting).
    private mutating func releaseThoseBehind(_ left: [RefusalMemory.CounterID: Int64]) {
        for waiter in waiting {
            if let cost = left[waiter.binding], waiter.request.cost < cost { refusals.release(waiter.binding) }
        }
    }

    /// These are judged with the next batch, before those who came since.
    mutating func putBack(_ requests: [(request: LimitRequest, sequence: UInt64)]) {
        let newcomers = removeArrivals()
        for (request, sequence) in requests { arrived.append(request, sequence: sequence) }
        for (request, sequence) in newcomers.calls { arrived.append(request, sequence: sequence) }
    }

    /// What one batch may hold; the rest is put back. O(requests).
    private mutating func firstPart(of batch: ServiceBatch) -> ServiceBatch {
        var part = emptyBatch
        for (request, sequence) in batch.calls {
            guard !part.limits.isFull else { break }
            part.append(request, sequence: sequence)
        }
        putBack(batch.calls.dropFirst(part.requests.count).map { (request: $0, sequence: $1) })
        return part
    }

    /// Calls to which no limit applies any more since the limits changed: for the caller to answer. O(1) with a service-wide
    /// limit, else O(arrived).
    package mutating func removeUnlimited() -> [LimitRequest] {
        func isUnlimited(_ request: LimitRequest) -> Bool { perSubject.isEmpty || request.subject == nil }
        guard serviceWide.isEmpty, arrived.requests.contains(where: isUnlimited) else { return [] }
        let all = removeArrivals()
        for (request, sequence) in all.calls where !isUnlimited(request) { arrived.append(request, sequence: sequence) }
        return all.requests.filter(isUnlimited)
    }

    /// Takes those whose counter may have room again out of the queue, a part of it at a time when other sidecars want their
    /// share, and puts them before the newcomers; those who would overtake somebody stay. O(waiting and arrived).
    private mutating func joinedByWaiters(now: Instant, sidecars: Int) -> ServiceBatch {
        var batch = emptyBatch
        var resting: Deque<Waiter> = []
        var released: [RefusalMemory.CounterID: Int64] = [:]
        var paused: Set<RefusalMemory.CounterID> = []
        for waiter in waiting {
            let isReady = refusals[waiter.binding].map { $0.releaseAt <= now } ?? true
            guard isReady, !paused.contains(waiter.binding) else {
                resting.append(waiter)
                continue
            }
            let definition = definitions[waiter.binding.definition]
            if let part = TurnSharing.part(of: definition.capacity, sidecars: sidecars) {
                let cost = released[waiter.binding, default: 0] + waiter.request.cost
                guard cost <= part || cost == waiter.request.cost else {
                    paused.insert(waiter.binding)
                    resting.append(waiter)
                    continue
                }
                released[waiter.binding] = cost
            }
            leave(waiter)
            batch.append(waiter.request, sequence: waiter.sequence)
        }
        waiting = resting
        for counter in paused {
            let pause = TurnSharing.pause(of: definitions[counter.definition], sidecars: sidecars)
            refusals.pause(counter, until: now.advanced(byMicroseconds: pause))
        }
        let newcomers = removeArrivals()
        var first: [RefusalMemory.CounterID: UInt64] = [:]
        for waiter in waiting { first[waiter.binding] = min(first[waiter.binding] ?? .max, waiter.sequence) }
        for (request, sequence) in newcomers.calls {
            if standsBehindWaiters(request, sequence, first: first) {
                arrived.append(request, sequence: sequence)
            } else {
                batch.append(request, sequence: sequence)
            }
        }
        return batch
    }

    /// - Parameter first: who came first of those who wait, for each counter.
    private func standsBehindWaiters(
        _ request: LimitRequest, _ sequence: UInt64, first: [RefusalMemory.CounterID: UInt64]
    ) -> Bool {
        !first.isEmpty
            && binding.contains { limit in
                counter(of: limit, for: request).flatMap { first[$0] }.map { $0 < sequence } ?? false
            }
    }

    /// The counter of a limit that may refuse `request`; `nil`: it does not bind it.
    private func counter(of limit: BindingLimit, for request: LimitRequest) -> RefusalMemory.CounterID? {
        guard limit.isPerSubject else { return RefusalMemory.CounterID(definition: limit.definition, subject: nil) }
        return request.subject.map { RefusalMemory.CounterID(definition: limit.definition, subject: $0) }
    }
}

// MARK: - What is known

extension ServiceLimiter {
    private func unsatisfiable(_ request: LimitRequest, hasSubject: Bool) -> LimitAnswer? {
        for index in definitions.indices {
            let definition = definitions[index]
            guard request.cost > definition.capacity, !definition.isShadow, !definition.isPerSubject || hasSubject else {
                continue
            }
            return LimitAnswer(
                .neverPossible, limit: definition.limit, remaining: definition.capacity, resetAfter: 0,
                limitName: definition.name)
        }
        return nil
    }

    /// The refusal that holds for longest.
    mutating func knownRefusal(
        of request: LimitRequest, now: Instant
    ) -> (counter: RefusalMemory.CounterID, until: Instant, answer: LimitAnswer)? {
        var found: (counter: RefusalMemory.CounterID, refusal: RefusalMemory.Refusal, until: Instant)?
        for limit in binding {
            guard let counter = counter(of: limit, for: request) else { continue }
            let known = refusals.refusal(of: counter, definition: definitions[limit.definition], cost: request.cost, now: now)
            guard let known, known.until > found?.until ?? Instant(nanoseconds: .min) else { continue }
            found = (counter, known.refusal, known.until)
        }
        return found.map { ($0.counter, $0.until, answer(for: $0.refusal, of: $0.counter, until: $0.until, now: now)) }
    }

    /// The time that a caller has to wait, in milliseconds. An answer is read a microsecond later at the earliest: a window of a second, its
    /// last microsecond included, is told as a second.
    static func wait(until instant: Instant, now: Instant) -> Int64 {
        max(1, instant.millisecondsRoundedUp(since: now.advanced(byMicroseconds: 1)))
    }

    private func answer(
        for refusal: RefusalMemory.Refusal, of counter: RefusalMemory.CounterID, until: Instant, now: Instant
    ) -> LimitAnswer {
        let wait = Self.wait(until: until, now: now)
        return LimitAnswer(
            .refused(retryAfter: wait), limit: refusal.limit, remaining: refusal.remaining,
            resetAfter: max(wait, refusal.wholeAt.millisecondsRoundedUp(since: now)),
            limitName: definitions[counter.definition].name)
    }

    /// What somebody would be told who comes now, behind all who wait still.
    private func answerOnLeaving(_ waiter: Waiter, now: Instant) -> LimitAnswer {
        let definition = definitions[waiter.binding.definition]
        guard let refusal = refusals[waiter.binding] else {
            return LimitAnswer(
                .refused(retryAfter: 1), limit: definition.limit, remaining: 0, resetAfter: 1, limitName: definition.name)
        }
        let until = refusal.earliest(for: waiter.request.cost, ahead: refusal.costAhead, of: definition)
        return answer(for: refusal, of: waiter.binding, until: until, now: now)
    }
}
