internal import DequeModule

/// The limits of one service in one sidecar. Groups calls into batches, queues calls that wait, and remembers refusals.
///
/// Usually one batch is in flight. A second one may follow if it is large and no call waits. Calls that arrive
/// meanwhile form the next batch. No call overtakes a waiting call that needs the same counter. The caller calls
/// `nextBatch` at the end of its tick, has the script evaluate the batch, and passes the verdict to `apply`.
///
/// The `sidecars` parameters take the number of sidecars that may be using the same limits; see `CapacitySplit`.
package struct ServiceLimiter: Sendable {
    /// The result of admitting a call.
    package enum Admission: Equatable, Sendable {
        /// Answered without Redis.
        case answered(CallDecision)
        /// The call is part of the next batch.
        case queued
        /// The call waits for its turn; see `nextWakeUp`. The answer is the refusal that it would otherwise receive.
        case waiting(CallDecision)
        /// No limit of the service applies to the call.
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
        /// The position in the order of arrival.
        var sequence: UInt64
    }

    package private(set) var definitions: [LimitDefinition]
    package let maximumWaiting: Int
    let serviceWide: [Int]
    let perSubject: [Int]
    /// The limits that may refuse a call.
    private let bindingLimits: [BindingLimit]
    /// An empty batch with these definitions, from which new batches are made.
    private let emptyBatch: ServiceBatch
    /// The calls for the next batch.
    var arrived: ServiceBatch
    /// The waiting calls in order of arrival.
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
        bindingLimits = definitions.indices.filter { !definitions[$0].isShadow }
            .map { BindingLimit(definition: $0, isPerSubject: definitions[$0].isPerSubject) }
        emptyBatch = ServiceBatch(definitions: definitions, shared: serviceWide, perSubject: perSubject)
        arrived = emptyBatch
        notices = LimitNotices(definitions: definitions)
    }

    package var waitingCount: Int { waiting.count }
    /// Whether a batch may be sent now. A second batch may follow one in flight only if it is large and no call waits:
    /// a small one waits for the verdict and grows meanwhile.
    package var mayFlush: Bool {
        guard let last = inFlight.last else { return true }
        return inFlight.count < Self.maximumInFlight && arrived.limits.runs.count >= Self.minimumSecondBatch
            && !arrived.hasWaiters && waiting.isEmpty && !last.hasWaiters
    }
    private static let maximumInFlight = 2
    private static let minimumSecondBatch = 64
    /// Whether any calls have arrived for the next batch.
    package var hasArrivals: Bool { !arrived.isEmpty }
    /// Whether so many requests have arrived that answering them would delay all other calls by half a millisecond.
    package var isBackedUp: Bool { arrived.requests.count >= Self.backlog }
    private static let backlog = 96

    /// Admits a call. O(limits of the service).
    package mutating func admit(_ request: LimitRequest, now: Instant) -> Admission {
        let hasSubject = request.subject != nil && !perSubject.isEmpty
        guard !serviceWide.isEmpty || hasSubject else { return .unlimited }
        if let answer = unsatisfiable(request, hasSubject: hasSubject) { return .answered(answer) }
        if !refusals.isEmpty, let known = knownRefusal(of: request, now: now) {
            if let deadline = request.deadline, known.until <= deadline, hasCapacity(for: request) {
                insert(Waiter(request: request, deadline: deadline, binding: known.counter, sequence: takeSequence()))
                return .waiting(known.answer)
            }
            return .answered(known.answer)
        }
        arrived.append(request, sequence: takeSequence())
        return .queued
    }

    /// Returns the calls to evaluate next, oldest first; `nil` unless `mayFlush`, or if no call is ready.
    package mutating func nextBatch(now: Instant, sidecars: Int = 1) -> ServiceBatch? {
        guard mayFlush else { return nil }
        var batch = arrived
        if waiting.isEmpty {
            guard !batch.isEmpty else { return nil }
            arrived = batch.successor(of: emptyBatch)
        } else {
            batch = batchWithWaiters(now: now, sidecars: sidecars)
            guard !batch.isEmpty else { return nil }
        }
        if batch.limits.isFull { batch = firstPart(of: batch) }
        batch.note(windowEnds)
        batchCount += 1
        batch.number = batchCount
        inFlight.append(batch)
        return batch
    }

    /// Removes a batch that gets no verdict. The caller answers its calls.
    package mutating func abandon(_ batch: ServiceBatch) { _ = removeInFlight(batch) }

    /// Returns `false` if the batch is not in flight.
    mutating func removeInFlight(_ batch: ServiceBatch) -> Bool {
        guard let index = inFlight.firstIndex(where: { $0.number == batch.number }) else { return false }
        inFlight.remove(at: index)
        return true
    }

    /// Returns the next time to call `nextBatch` and `expire` for the waiting calls; `nil` if no call waits.
    /// O(waiting).
    package func nextWakeUp(now: Instant) -> Instant? {
        waiting.map { min($0.deadline, refusals[$0.binding]?.releaseAt ?? now) }.min()
    }

    /// Answers the waiting calls whose deadline has passed. O(waiting).
    package mutating func expire(now: Instant, into resolutions: inout [CallResolution]) {
        guard waiting.contains(where: { $0.deadline <= now }) else { return }
        let leaving = waiting.filter { $0.deadline <= now }
        waiting.removeAll { $0.deadline <= now }
        var departedCosts: [RefusalMemory.CounterID: Int64] = [:]
        for waiter in leaving {
            removeFromCounts(waiter)
            departedCosts[waiter.binding] = max(departedCosts[waiter.binding] ?? 0, waiter.request.cost)
        }
        for waiter in leaving {
            resolutions.append(
                CallResolution(id: waiter.request.id, answer: answerAfterExpiry(waiter, now: now), requestIndex: nil))
        }
        releaseWaiters(behind: departedCosts)
    }

    /// Removes a waiting call whose caller has left. Returns `false` if the call is not waiting here: its answer is on
    /// the way.
    package mutating func remove(_ id: Int) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.request.id == id }) else { return false }
        let waiter = waiting.remove(at: index)
        removeFromCounts(waiter)
        releaseWaiters(behind: [waiter.binding: waiter.request.cost])
        return true
    }

    /// Removes all waiting calls. Returns their IDs, for the caller to answer.
    package mutating func removeWaiting() -> [Int] {
        defer { waiting.removeAll() }
        for waiter in waiting { removeFromCounts(waiter) }
        return waiting.map(\.request.id)
    }

    /// Forgets refusals by a counter after a refund: calls that it refused may now be granted.
    package mutating func recordRefund(definition: Int, subject: String?) {
        refusals.forget(RefusalMemory.CounterID(definition: definition, subject: subject))
    }

    /// Forgets refusals and window ends after Redis was unreachable: refused calls may now be granted, and windows may
    /// have been lost with their ends.
    package mutating func forgetRefusals() {
        refusals.forgetAll()
        windowEnds = WindowEnds()
    }

    /// Removes and returns the notices since the last call.
    package mutating func removeNotices() -> [LimitNotices.Notice] {
        notices.pending.isEmpty ? [] : notices.removePending()
    }

    /// Returns the limiter for changed limits. Refusals and window ends are forgotten, and waiting calls are evaluated
    /// again, in order.
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

    /// Removes and returns the calls that have arrived.
    mutating func removeArrivals() -> ServiceBatch {
        defer { arrived = emptyBatch }
        return arrived
    }

    private mutating func takeSequence() -> UInt64 {
        nextSequence += 1
        return nextSequence
    }

    /// Returns whether one more call may wait.
    func hasCapacity(for request: LimitRequest) -> Bool {
        waiting.count < maximumWaiting && waitingSubjects.hasCapacity(for: request.subject, of: maximumWaiting)
    }

    /// Inserts a waiter in order of arrival. O(1) for the newest.
    mutating func insert(_ waiter: Waiter) {
        waitingSubjects.add(waiter.request.subject)
        refusals.changeWaiters(of: waiter.binding, by: 1, cost: waiter.request.cost)
        var index = waiting.count
        while index > 0, waiting[index - 1].sequence > waiter.sequence { index -= 1 }
        waiting.insert(waiter, at: index)
    }

    private mutating func removeFromCounts(_ waiter: Waiter) {
        waitingSubjects.remove(waiter.request.subject)
        refusals.changeWaiters(of: waiter.binding, by: -1, cost: waiter.request.cost)
    }

    /// Lets a counter's waiting calls retry immediately if one of them costs less than a departed call, because it may
    /// fit now. O(waiting).
    private mutating func releaseWaiters(behind departedCosts: [RefusalMemory.CounterID: Int64]) {
        for waiter in waiting {
            if let cost = departedCosts[waiter.binding], waiter.request.cost < cost { refusals.release(waiter.binding) }
        }
    }

    /// Puts requests into the next batch, before later arrivals.
    mutating func putBack(_ requests: [(request: LimitRequest, sequence: UInt64)]) {
        let newcomers = removeArrivals()
        for (request, sequence) in requests { arrived.append(request, sequence: sequence) }
        for (request, sequence) in newcomers.calls { arrived.append(request, sequence: sequence) }
    }

    /// Returns as many calls as fit into one batch and puts the rest back. O(requests).
    private mutating func firstPart(of batch: ServiceBatch) -> ServiceBatch {
        var part = emptyBatch
        for (request, sequence) in batch.calls {
            guard !part.limits.isFull else { break }
            part.append(request, sequence: sequence)
        }
        putBack(batch.calls.dropFirst(part.requests.count).map { (request: $0, sequence: $1) })
        return part
    }

    /// Removes and returns the calls to which no limit applies after the limits changed. The caller answers them. O(1)
    /// with a service-wide limit, otherwise O(arrived).
    package mutating func removeUnlimited() -> [LimitRequest] {
        func isUnlimited(_ request: LimitRequest) -> Bool { perSubject.isEmpty || request.subject == nil }
        guard serviceWide.isEmpty, arrived.requests.contains(where: isUnlimited) else { return [] }
        let all = removeArrivals()
        for (request, sequence) in all.calls where !isUnlimited(request) { arrived.append(request, sequence: sequence) }
        return all.requests.filter(isUnlimited)
    }

    /// Returns the waiting calls whose counter may have capacity again, followed by the arrivals that overtake no
    /// waiting call. With several sidecars, each counter's calls request one part of its capacity at a time; see
    /// `CapacitySplit`. O(waiting and arrived).
    private mutating func batchWithWaiters(now: Instant, sidecars: Int) -> ServiceBatch {
        var batch = emptyBatch
        var stillWaiting: Deque<Waiter> = []
        var released: [RefusalMemory.CounterID: Int64] = [:]
        var paused: Set<RefusalMemory.CounterID> = []
        for waiter in waiting {
            let isReady = refusals[waiter.binding].map { $0.releaseAt <= now } ?? true
            guard isReady, !paused.contains(waiter.binding) else {
                stillWaiting.append(waiter)
                continue
            }
            let definition = definitions[waiter.binding.definition]
            if let part = CapacitySplit.part(of: definition.capacity, sidecars: sidecars) {
                let cost = released[waiter.binding, default: 0] + waiter.request.cost
                guard cost <= part || cost == waiter.request.cost else {
                    paused.insert(waiter.binding)
                    stillWaiting.append(waiter)
                    continue
                }
                released[waiter.binding] = cost
            }
            removeFromCounts(waiter)
            batch.append(waiter.request, sequence: waiter.sequence)
        }
        waiting = stillWaiting
        for counter in paused {
            let pause = CapacitySplit.pause(of: definitions[counter.definition], sidecars: sidecars)
            refusals.pause(counter, until: now.advanced(byMicroseconds: pause))
        }
        let newcomers = removeArrivals()
        var first: [RefusalMemory.CounterID: UInt64] = [:]
        for waiter in waiting { first[waiter.binding] = min(first[waiter.binding] ?? .max, waiter.sequence) }
        for (request, sequence) in newcomers.calls {
            if isBehindWaiters(request, sequence, first: first) {
                arrived.append(request, sequence: sequence)
            } else {
                batch.append(request, sequence: sequence)
            }
        }
        return batch
    }

    /// Returns whether an earlier call waits for one of the counters that the request needs.
    /// - Parameter first: the sequence number of the first waiting call of each counter.
    private func isBehindWaiters(
        _ request: LimitRequest, _ sequence: UInt64, first: [RefusalMemory.CounterID: UInt64]
    ) -> Bool {
        !first.isEmpty
            && bindingLimits.contains { limit in
                counter(of: limit, for: request).flatMap { first[$0] }.map { $0 < sequence } ?? false
            }
    }

    /// Returns the counter of a limit that may refuse `request`; `nil` if the limit does not apply to it.
    private func counter(of limit: BindingLimit, for request: LimitRequest) -> RefusalMemory.CounterID? {
        guard limit.isPerSubject else { return RefusalMemory.CounterID(definition: limit.definition, subject: nil) }
        return request.subject.map { RefusalMemory.CounterID(definition: limit.definition, subject: $0) }
    }
}

// MARK: - Remembered refusals

extension ServiceLimiter {
    private func unsatisfiable(_ request: LimitRequest, hasSubject: Bool) -> CallDecision? {
        for index in definitions.indices {
            let definition = definitions[index]
            guard request.cost > definition.capacity, !definition.isShadow, !definition.isPerSubject || hasSubject else {
                continue
            }
            return CallDecision(
                .neverSatisfiable, limit: definition.limit, remaining: definition.capacity, resetAfter: 0,
                limitName: definition.name)
        }
        return nil
    }

    /// Returns the known refusal that lasts longest.
    mutating func knownRefusal(
        of request: LimitRequest, now: Instant
    ) -> (counter: RefusalMemory.CounterID, until: Instant, answer: CallDecision)? {
        var found: (counter: RefusalMemory.CounterID, refusal: RefusalMemory.Refusal, until: Instant)?
        for limit in bindingLimits {
            guard let counter = counter(of: limit, for: request) else { continue }
            let known = refusals.refusal(of: counter, definition: definitions[limit.definition], cost: request.cost, now: now)
            guard let known, known.until > found?.until ?? Instant(nanoseconds: .min) else { continue }
            found = (counter, known.refusal, known.until)
        }
        return found.map { ($0.counter, $0.until, answer(for: $0.refusal, of: $0.counter, until: $0.until, now: now)) }
    }

    /// Returns the time that a caller has to wait, in milliseconds. Callers read the answer at least one microsecond
    /// later, so a wait of one second and one microsecond is reported as one second.
    static func wait(until instant: Instant, now: Instant) -> Int64 {
        max(1, instant.millisecondsRoundedUp(since: now.advanced(byMicroseconds: 1)))
    }

    private func answer(
        for refusal: RefusalMemory.Refusal, of counter: RefusalMemory.CounterID, until: Instant, now: Instant
    ) -> CallDecision {
        let wait = Self.wait(until: until, now: now)
        return CallDecision(
            .refused(retryAfter: wait), limit: refusal.limit, remaining: refusal.remaining,
            resetAfter: max(wait, refusal.resetAt.millisecondsRoundedUp(since: now)),
            limitName: definitions[counter.definition].name)
    }

    /// Returns the answer that a new call would get now, behind all calls that still wait.
    private func answerAfterExpiry(_ waiter: Waiter, now: Instant) -> CallDecision {
        let definition = definitions[waiter.binding.definition]
        guard let refusal = refusals[waiter.binding] else {
            return CallDecision(
                .refused(retryAfter: 1), limit: definition.limit, remaining: 0, resetAfter: 1, limitName: definition.name)
        }
        let until = refusal.earliest(for: waiter.request.cost, ahead: refusal.costAhead, of: definition)
        return answer(for: refusal, of: waiter.binding, until: until, now: now)
    }
}
