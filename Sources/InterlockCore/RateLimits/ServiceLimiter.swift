internal import DequeModule

/// The limits of one service in one sidecar. Groups calls into batches, queues the calls that wait, and remembers
/// refusals.
///
/// Usually one batch is in flight. A second batch may follow it if the second is large and no call waits. Calls that
/// arrive meanwhile form the next batch. No call overtakes a waiting call that needs the same counter. The executor
/// calls `nextBatch` at the end of its tick, has the script evaluate the batch, and passes the verdict to `apply`.
///
/// The `sidecars` parameters take the number of sidecars that may be using the same limits; see `CapacitySplit`.
///
/// The limiter is noncopyable, because every call uses it and a copy would be expensive.
package struct ServiceLimiter: ~Copyable, Sendable {
    /// The result of admitting a call.
    package enum Admission: Equatable, Sendable {
        /// The call is decided without Redis.
        case decided(CallDecision)
        /// The call is part of the next batch.
        case queued
        /// The call waits for its turn; see `nextWakeUp`. The decision is the refusal that it would get without
        /// waiting.
        case waiting(CallDecision)
        /// No limit of the service applies to the call.
        case unlimited
    }

    private struct BindingLimit: Sendable {
        /// The index of the limit's definition.
        var definitionIndex: Int
        var isPerSubject: Bool
    }

    /// A batch that has no verdict yet.
    private struct BatchInFlight: Sendable {
        let number: UInt64
        let hasWaiters: Bool
    }

    /// A call that waits for its turn.
    struct Waiter: Sendable {
        var request: LimitRequest
        var deadline: Instant
        /// The counter that refused the call.
        var binding: RefusalMemory.CounterID
        /// The sequence number, which rises in order of arrival.
        var sequence: UInt64
    }

    package private(set) var definitions: [LimitDefinition]
    package let maximumWaiting: Int
    /// The indices of the limits of the whole service.
    let serviceWide: [Int]
    /// The indices of the limits that count per subject.
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
    private var inFlight: [BatchInFlight] = []
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
            .map { BindingLimit(definitionIndex: $0, isPerSubject: definitions[$0].isPerSubject) }
        emptyBatch = ServiceBatch(definitions: definitions, shared: serviceWide, perSubject: perSubject)
        arrived = emptyBatch
        notices = LimitNotices(definitions: definitions)
    }

    package var waitingCount: Int { waiting.count }
    /// Whether a batch may be sent now. While a batch is in flight, a second may follow only if it is large and no call
    /// waits. A small one stays until the verdict arrives, and grows meanwhile.
    package var mayFlush: Bool {
        guard let last = inFlight.last else { return true }
        return inFlight.count < Self.maximumInFlight && arrived.limits.runs.count >= Self.minimumRunsOfSecondBatch
            && !arrived.hasWaiters && waiting.isEmpty && !last.hasWaiters
    }
    private static let maximumInFlight = 2
    private static let minimumRunsOfSecondBatch = 64
    /// Whether any calls have arrived for the next batch.
    package var hasArrivals: Bool { !arrived.isEmpty }
    /// Whether so many requests have arrived that answering them would delay all other calls by half a millisecond.
    package var isBackedUp: Bool { arrived.requests.count >= Self.backlogRequests }
    private static let backlogRequests = 96

    /// Admits a call. O(limits of the service).
    package mutating func admit(_ request: LimitRequest, now: Instant) -> Admission {
        let hasSubject = request.subject != nil && !perSubject.isEmpty
        guard !serviceWide.isEmpty || hasSubject else { return .unlimited }
        if let refusal = neverSatisfiable(request, hasSubject: hasSubject) { return .decided(refusal) }
        if !refusals.isEmpty, let refusal = knownRefusal(of: request, now: now) {
            if let deadline = request.deadline, refusal.until <= deadline, hasCapacity(for: request) {
                insert(Waiter(request: request, deadline: deadline, binding: refusal.counter, sequence: takeSequence()))
                return .waiting(refusal.decision)
            }
            return .decided(refusal.decision)
        }
        arrived.append(request, sequence: takeSequence())
        return .queued
    }

    /// Returns the calls to evaluate next, oldest first; `nil` unless `mayFlush`, or if no call is ready.
    package mutating func nextBatch(now: Instant, sidecars: Int = 1) -> ServiceBatch? {
        guard mayFlush else { return nil }
        var batch: ServiceBatch
        if waiting.isEmpty {
            guard !arrived.isEmpty else { return nil }
            batch = arrived.successor(of: emptyBatch)
            swap(&batch, &arrived)
        } else {
            batch = batchWithWaiters(now: now, sidecars: sidecars)
            guard !batch.isEmpty else { return nil }
        }
        if batch.limits.isFull { batch = firstPart(of: batch) }
        batch.record(windowEnds)
        batchCount += 1
        batch.number = batchCount
        inFlight.append(BatchInFlight(number: batchCount, hasWaiters: batch.hasWaiters))
        return batch
    }

    /// Removes a batch that gets no verdict. The executor answers its calls.
    package mutating func abandon(_ batch: ServiceBatch) { _ = removeInFlight(batch) }

    /// Removes a batch from those in flight.
    /// - Returns: `false` if the batch is not in flight.
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

    /// Refuses the waiting calls whose deadline has passed. O(waiting).
    package mutating func expire(now: Instant, into resolutions: inout [CallResolution]) {
        guard waiting.contains(where: { $0.deadline <= now }) else { return }
        let expired = waiting.filter { $0.deadline <= now }
        waiting.removeAll { $0.deadline <= now }
        var departedCosts: [RefusalMemory.CounterID: Int64] = [:]
        for waiter in expired {
            removeFromCounts(waiter)
            departedCosts[waiter.binding] = max(departedCosts[waiter.binding] ?? 0, waiter.request.cost)
        }
        for waiter in expired {
            resolutions.append(
                CallResolution(
                    id: waiter.request.id, decision: refusalAfterExpiry(of: waiter, now: now), requestIndex: nil))
        }
        releaseWaiters(behind: departedCosts)
    }

    /// Removes a waiting call whose caller has left.
    /// - Returns: `false` if the call does not wait here, because it is in a batch or has been answered.
    package mutating func remove(_ id: Int) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.request.id == id }) else { return false }
        let waiter = waiting.remove(at: index)
        removeFromCounts(waiter)
        releaseWaiters(behind: [waiter.binding: waiter.request.cost])
        return true
    }

    /// Removes all waiting calls.
    /// - Returns: their IDs. The executor answers them.
    package mutating func removeWaiting() -> [Int] {
        defer { waiting.removeAll() }
        for waiter in waiting { removeFromCounts(waiter) }
        return waiting.map(\.request.id)
    }

    /// Forgets the refusal of a counter after a refund, because the counter may now grant what it refused.
    package mutating func recordRefund(definitionIndex: Int, subject: String?) {
        refusals.forget(RefusalMemory.CounterID(definitionIndex: definitionIndex, subject: subject))
    }

    /// Forgets refusals and window ends after Redis was unreachable, because Redis may have lost the counters and their
    /// windows.
    package mutating func forgetRefusals() {
        refusals.forgetAll()
        windowEnds = WindowEnds()
    }

    /// Removes and returns the notices since the last call.
    package mutating func removeNotices() -> [LimitNotices.Notice] {
        notices.pending.isEmpty ? [] : notices.removePending()
    }

    /// Adopts changed limits. Forgets refusals and window ends, and evaluates the waiting calls again, in order.
    package mutating func redefine(definitions: [LimitDefinition], maximumWaiting: Int) {
        var next = ServiceLimiter(definitions: definitions, maximumWaiting: maximumWaiting)
        next.inFlight = inFlight
        next.batchCount = batchCount
        next.nextSequence = nextSequence
        for waiter in waiting { next.arrived.append(waiter.request, sequence: waiter.sequence) }
        for (request, sequence) in arrived.calls { next.arrived.append(request, sequence: sequence) }
        self = next
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

    /// Returns whether another call may wait.
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

    /// Lets a counter's waiting calls retry immediately if one of them costs less than a call that has left, because
    /// the cheaper call may fit now. O(waiting).
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

    /// Returns as many calls as fit into one batch, and puts the other calls back. O(requests).
    private mutating func firstPart(of batch: ServiceBatch) -> ServiceBatch {
        var part = emptyBatch
        for (request, sequence) in batch.calls {
            guard !part.limits.isFull else { break }
            part.append(request, sequence: sequence)
        }
        putBack(batch.calls.dropFirst(part.requests.count).map { (request: $0, sequence: $1) })
        return part
    }

    /// Removes and returns the calls to which no limit applies after a change of the limits. The executor answers them.
    /// O(1) with a service-wide limit, otherwise O(arrived).
    package mutating func removeUnlimited() -> [LimitRequest] {
        func isUnlimited(_ request: LimitRequest) -> Bool { perSubject.isEmpty || request.subject == nil }
        guard serviceWide.isEmpty, arrived.requests.contains(where: isUnlimited) else { return [] }
        let former = removeArrivals()
        for (request, sequence) in former.calls where !isUnlimited(request) {
            arrived.append(request, sequence: sequence)
        }
        return former.requests.filter(isUnlimited)
    }

    /// Returns a batch of the waiting calls whose counter may have capacity again, followed by the arrivals that
    /// overtake no waiting call. With several sidecars, each counter's waiting calls request one part of its capacity
    /// at a time; see `CapacitySplit`. O(waiting and arrived).
    private mutating func batchWithWaiters(now: Instant, sidecars: Int) -> ServiceBatch {
        var batch = emptyBatch
        var stillWaiting: Deque<Waiter> = []
        var releasedCosts: [RefusalMemory.CounterID: Int64] = [:]
        var paused: Set<RefusalMemory.CounterID> = []
        for waiter in waiting {
            let isReady = refusals[waiter.binding].map { $0.releaseAt <= now } ?? true
            guard isReady, !paused.contains(waiter.binding) else {
                stillWaiting.append(waiter)
                continue
            }
            let definition = definitions[waiter.binding.definitionIndex]
            if let maximumCost = CapacitySplit.part(of: definition.capacity, sidecars: sidecars) {
                let cost = releasedCosts[waiter.binding, default: 0] + waiter.request.cost
                guard cost <= maximumCost || cost == waiter.request.cost else {
                    paused.insert(waiter.binding)
                    stillWaiting.append(waiter)
                    continue
                }
                releasedCosts[waiter.binding] = cost
            }
            removeFromCounts(waiter)
            batch.append(waiter.request, sequence: waiter.sequence)
        }
        waiting = stillWaiting
        for counter in paused {
            let pauseMicroseconds = CapacitySplit.pauseMicroseconds(
                of: definitions[counter.definitionIndex], sidecars: sidecars)
            refusals.pause(counter, until: now.advanced(byMicroseconds: pauseMicroseconds))
        }
        let newcomers = removeArrivals()
        var firstSequences: [RefusalMemory.CounterID: UInt64] = [:]
        for waiter in waiting {
            firstSequences[waiter.binding] = min(firstSequences[waiter.binding] ?? .max, waiter.sequence)
        }
        for (request, sequence) in newcomers.calls {
            if isBehindWaiters(request, sequence, firstSequences: firstSequences) {
                arrived.append(request, sequence: sequence)
            } else {
                batch.append(request, sequence: sequence)
            }
        }
        return batch
    }

    /// Returns whether an earlier call waits for one of the counters that the request needs.
    /// - Parameter firstSequences: the sequence number of the first waiting call of each counter.
    private func isBehindWaiters(
        _ request: LimitRequest, _ sequence: UInt64, firstSequences: [RefusalMemory.CounterID: UInt64]
    ) -> Bool {
        !firstSequences.isEmpty
            && bindingLimits.contains { limit in
                counter(of: limit, for: request).flatMap { firstSequences[$0] }.map { $0 < sequence } ?? false
            }
    }

    /// Returns the counter of a limit that may refuse `request`; `nil` if the limit does not apply to it.
    private func counter(of limit: BindingLimit, for request: LimitRequest) -> RefusalMemory.CounterID? {
        guard limit.isPerSubject else {
            return RefusalMemory.CounterID(definitionIndex: limit.definitionIndex, subject: nil)
        }
        return request.subject.map { RefusalMemory.CounterID(definitionIndex: limit.definitionIndex, subject: $0) }
    }
}

// MARK: - Remembered refusals

extension ServiceLimiter {
    /// Returns the refusal of a request whose cost exceeds the capacity of a limit; `nil` if all limits can grant it.
    private func neverSatisfiable(_ request: LimitRequest, hasSubject: Bool) -> CallDecision? {
        for index in definitions.indices {
            let definition = definitions[index]
            guard request.cost > definition.capacity, !definition.isShadow, !definition.isPerSubject || hasSubject
            else {
                continue
            }
            return CallDecision(
                .neverSatisfiable, limit: definition.limit, remaining: definition.capacity, resetAfterMilliseconds: 0,
                limitName: definition.name)
        }
        return nil
    }

    /// Returns the remembered refusal of the request that lasts longest, and the decision that follows from it.
    mutating func knownRefusal(
        of request: LimitRequest, now: Instant
    ) -> (counter: RefusalMemory.CounterID, until: Instant, decision: CallDecision)? {
        var longest: (counter: RefusalMemory.CounterID, refusal: RefusalMemory.Refusal, until: Instant)?
        for limit in bindingLimits {
            guard let counter = counter(of: limit, for: request) else { continue }
            let remembered = refusals.refusal(
                of: counter, definition: definitions[limit.definitionIndex], cost: request.cost, now: now)
            guard let remembered, remembered.until > longest?.until ?? Instant(nanoseconds: .min) else { continue }
            longest = (counter, remembered.refusal, remembered.until)
        }
        return longest.map {
            ($0.counter, $0.until, decision(by: $0.refusal, of: $0.counter, until: $0.until, now: now))
        }
    }

    /// Returns how long a caller has to wait, in milliseconds. Callers read the decision at least one microsecond
    /// later, so a wait of one second and one microsecond is reported as one second.
    static func waitMilliseconds(until instant: Instant, now: Instant) -> Int64 {
        max(1, instant.millisecondsRoundedUp(since: now.advanced(byMicroseconds: 1)))
    }

    private func decision(
        by refusal: RefusalMemory.Refusal, of counter: RefusalMemory.CounterID, until: Instant, now: Instant
    ) -> CallDecision {
        let waitMilliseconds = Self.waitMilliseconds(until: until, now: now)
        return CallDecision(
            .refused(retryAfterMilliseconds: waitMilliseconds), limit: refusal.limit, remaining: refusal.remaining,
            resetAfterMilliseconds: max(waitMilliseconds, refusal.resetAt.millisecondsRoundedUp(since: now)),
            limitName: definitions[counter.definitionIndex].name)
    }

    /// Returns the refusal of a call whose wait has ended: the one that a new call would get behind all waiting calls.
    private func refusalAfterExpiry(of waiter: Waiter, now: Instant) -> CallDecision {
        let definition = definitions[waiter.binding.definitionIndex]
        guard let refusal = refusals[waiter.binding] else {
            return CallDecision(
                .refused(retryAfterMilliseconds: 1), limit: definition.limit, remaining: 0, resetAfterMilliseconds: 1,
                limitName: definition.name)
        }
        let until = refusal.earliest(for: waiter.request.cost, ahead: refusal.costAhead, of: definition)
        return decision(by: refusal, of: waiter.binding, until: until, now: now)
    }
}
