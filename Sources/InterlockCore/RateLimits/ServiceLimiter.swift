internal import DequeModule

/// The limits of one service within one sidecar: which calls travel together, who waits, and what is already known.
///
/// At most one batch is under way. Calls that arrive meanwhile form the next one; a call that waits for its turn is never
/// overtaken by a later one that needs the same counter. The caller asks `nextBatch` at the end of its tick, has the
/// script judge it, and hands the verdict to `settle`.
public struct ServiceLimiter: Sendable {
    /// What became of the calls of a request, or of some of them.
    public struct Settlement: Equatable, Sendable {
        public var id: Int
        /// The answer to the first of these calls.
        public var answer: LimitAnswer
        /// Its place in the batch; `nil`: it did not travel.
        public var place: Int?
        /// Which of the request's calls these are.
        public var calls: Range<Int>
        /// No other settlement of the request follows.
        public var isLast: Bool
        /// How much less each further call leaves than the one before it.
        var step: Int64

        public init(
            id: Int, answer: LimitAnswer, place: Int?, calls: Range<Int> = 0..<1, isLast: Bool = true, step: Int64 = 0
        ) {
            self.id = id
            self.answer = answer
            self.place = place
            self.calls = calls
            self.isLast = isLast
            self.step = step
        }

        /// The answer to one of the calls.
        public func answer(toCall call: Int) -> LimitAnswer {
            var answer = answer
            answer.remaining = max(0, answer.remaining - step * Int64(call - calls.lowerBound))
            return answer
        }
    }

    /// What the caller is to do with a call that just came.
    public enum Admission: Equatable, Sendable {
        /// Known without Redis.
        case answered(LimitAnswer)
        /// It travels with the next batch.
        case queued
        /// It waits for its turn; see `nextWakeUp`.
        case waiting
        /// No limit of the service applies to it: there is nothing to take from.
        case unlimited
    }

    private struct Waiter: Sendable {
        var request: LimitRequest
        var deadline: Instant
        var binding: RefusalMemory.CounterID
        /// Its place in the order of arrival.
        var sequence: UInt64
    }

    public private(set) var definitions: [LimitDefinition]
    public let maximumWaiting: Int
    private var serviceWide: [Int] = []
    private var perSubject: [Int] = []
    private var arrived: LimitBatch
    private var arrivedSequences: [UInt64] = []
    private var waiting: Deque<Waiter> = []
    private var inFlight: (batch: LimitBatch, sequences: [UInt64])?
    private var refusals = RefusalMemory()
    private var nextSequence: UInt64 = 0

    public init(definitions: [LimitDefinition], maximumWaiting: Int) {
        self.definitions = definitions
        self.maximumWaiting = maximumWaiting
        serviceWide = definitions.indices.filter { !definitions[$0].isPerSubject }
        perSubject = definitions.indices.filter { definitions[$0].isPerSubject }
        arrived = LimitBatch(definitions: definitions, serviceWide: serviceWide, perSubject: perSubject)
    }

    public var waitingCount: Int { waiting.count }
    public var hasBatchInFlight: Bool { inFlight != nil }

    /// A call arrives. O(limits of the service).
    public mutating func admit(_ request: LimitRequest, now: Instant) -> Admission {
        let hasSubject = request.subject != nil && !perSubject.isEmpty
        guard !serviceWide.isEmpty || hasSubject else { return .unlimited }
        if let answer = unsatisfiable(request, hasSubject: hasSubject) { return .answered(answer) }
        if !refusals.isEmpty, let (counter, refusal) = knownRefusal(of: request, hasSubject: hasSubject, now: now) {
            if let deadline = request.deadline, refusal.resetAt <= deadline, waiting.count < maximumWaiting {
                insert(Waiter(request: request, deadline: deadline, binding: counter, sequence: takeSequence()))
                return .waiting
            }
            return .answered(answer(for: refusal, counter: counter, now: now))
        }
        arrived.append(request)
        arrivedSequences.append(takeSequence())
        return .queued
    }

    /// The calls to be judged next, oldest first; `nil` while a batch is under way or when there is nothing to ask.
    public mutating func nextBatch(now: Instant) -> LimitBatch? {
        guard inFlight == nil else { return nil }
        var batch = arrived
        var sequences = arrivedSequences
        if !waiting.isEmpty {
            (batch, sequences) = joinedByWaiters(now: now)
        }
        guard !batch.isEmpty else { return nil }
        arrived = emptyBatch
        arrivedSequences.removeAll(keepingCapacity: true)
        inFlight = (batch, sequences)
        return batch
    }

    /// The verdict on the batch under way: appends an answer for each call that has one; the others wait on.
    /// - Parameters:
    ///   - limits: of each counter of the batch, when others than the definitions' were applied.
    ///   - sentAt: before the batch was sent.
    public mutating func settle(
        _ verdict: LimitVerdict,
        limits: [Int64]? = nil,
        sentAt: Instant,
        now: Instant,
        into settlements: inout [Settlement]
    ) {
        guard let (batch, sequences) = inFlight else { return }
        inFlight = nil
        let counters = batch.counters
        let limits = limits ?? counters.map(\.limit)
        // A reload meanwhile: the verdict stands, but says nothing of the new limits.
        let isCurrent = batch.definitions == definitions
        var used = verdict.counters.map(\.count)
        var place = 0
        for (run, decided) in zip(batch.runs, verdict.runs) {
            let bound = batch.counterIndices(ofGroup: run.group)
            var callsLeft = run.count
            var grantsLeft = decided.granted
            while callsLeft > 0 {
                let request = batch.requests[place]
                let granted = min(grantsLeft, request.count)
                callsLeft -= request.count
                grantsLeft -= granted
                if granted > 0 {
                    let taken = run.cost * Int64(granted)
                    for index in bound.serviceWide { used[index] += taken }
                    for index in bound.perSubject { used[index] += taken }
                    let tightest = Self.tightest(
                        of: bound.serviceWide, and: bound.perSubject, used: used, limits: limits, verdict: verdict)
                    settlements.append(
                        Settlement(
                            id: request.id,
                            answer: LimitAnswer(
                                retryAfter: nil, limit: limits[tightest],
                                remaining: max(0, limits[tightest] - used[tightest] + taken - run.cost),
                                resetAfter: max(1, verdict.counters[tightest].ttl), limitIndex: counters[tightest].definition),
                            place: place, calls: 0..<granted, isLast: granted == request.count, step: run.cost))
                }
                if granted < request.count {
                    let binding = decided.binding
                    refuse(
                        request, from: granted, sequence: sequences[place], place: place, counter: counters[binding],
                        limit: limits[binding], remaining: max(0, limits[binding] - used[binding]),
                        ttl: max(0, verdict.counters[binding].ttl), sentAt: sentAt, now: now, isCurrent: isCurrent,
                        into: &settlements)
                }
                place += 1
            }
        }
    }

    /// A request that `counter` refused, but for its first calls: it waits when it may, else it is answered.
    private mutating func refuse(
        _ request: LimitRequest, from first: Int, sequence: UInt64, place: Int, counter: LimitBatch.Counter, limit: Int64,
        remaining: Int64, ttl: Int64, sentAt: Instant, now: Instant, isCurrent: Bool, into settlements: inout [Settlement]
    ) {
        let refusal = RefusalMemory.Refusal(
            cost: request.cost, remaining: remaining, until: sentAt.advanced(byMilliseconds: ttl),
            // A key is gone in the millisecond after its ttl.
            resetAt: now.advanced(byMilliseconds: ttl + 1))
        let id = RefusalMemory.CounterID(definition: counter.definition, subject: counter.subject)
        if isCurrent { refusals.remember(refusal, of: id, now: now) }
        if let deadline = request.deadline, refusal.resetAt <= deadline, waiting.count < maximumWaiting {
            if isCurrent {
                insert(Waiter(request: request, deadline: deadline, binding: id, sequence: sequence))
            } else {
                arrived.append(request)
                arrivedSequences.append(sequence)
            }
            return
        }
        settlements.append(
            Settlement(
                id: request.id,
                answer: LimitAnswer(
                    retryAfter: ttl + 1, limit: limit, remaining: remaining, resetAfter: ttl + 1,
                    limitIndex: counter.definition),
                place: place, calls: first..<request.count))
    }

    /// The batch under way has no verdict: its calls, for the caller to answer.
    public mutating func abandonBatch() -> [LimitRequest] {
        defer { inFlight = nil }
        return inFlight?.batch.requests ?? []
    }

    /// When `nextBatch` and `expire` want to be called next because of those who wait; `nil`: nobody waits.
    /// O(waiting).
    public func nextWakeUp(now: Instant) -> Instant? {
        waiting.map { min($0.deadline, refusals.resetAt(of: $0.binding) ?? now) }.min()
    }

    /// Answers those whose wait is over. O(waiting).
    public mutating func expire(now: Instant, into settlements: inout [Settlement]) {
        guard waiting.contains(where: { $0.deadline <= now }) else { return }
        let all = waiting
        waiting = []
        for waiter in all {
            guard waiter.deadline <= now else {
                waiting.append(waiter)
                continue
            }
            refusals.changeWaiters(of: waiter.binding, by: -1)
            settlements.append(Settlement(id: waiter.request.id, answer: answerOnLeaving(waiter, now: now), place: nil))
        }
    }

    /// A caller left. `false`: it is not waiting here; its answer is on the way.
    public mutating func remove(_ id: Int) -> Bool {
        guard let index = waiting.firstIndex(where: { $0.request.id == id }) else { return false }
        refusals.changeWaiters(of: waiting[index].binding, by: -1)
        waiting.remove(at: index)
        return true
    }

    /// Everyone who waits leaves: their marks, for the caller to answer.
    public mutating func removeWaiting() -> [Int] {
        defer { waiting.removeAll() }
        for waiter in waiting { refusals.changeWaiters(of: waiter.binding, by: -1) }
        return waiting.map(\.request.id)
    }

    /// Something was given back to a limit: what was refused may now be granted.
    public mutating func gaveBack(definition: Int, subject: String?) {
        refusals.forget(RefusalMemory.CounterID(definition: definition, subject: subject))
    }

    /// The service's limits changed: what is remembered no longer holds, and those who wait are judged anew, in order.
    public func redefined(definitions: [LimitDefinition], maximumWaiting: Int) -> ServiceLimiter {
        var next = ServiceLimiter(definitions: definitions, maximumWaiting: maximumWaiting)
        next.inFlight = inFlight
        next.nextSequence = nextSequence
        let pending = waiting.map { ($0.request, $0.sequence) } + Array(zip(arrived.requests, arrivedSequences))
        for (request, sequence) in pending {
            next.arrived.append(request)
            next.arrivedSequences.append(sequence)
        }
        return next
    }
}

// MARK: - The rules

extension ServiceLimiter {
    private var emptyBatch: LimitBatch {
        LimitBatch(definitions: definitions, serviceWide: serviceWide, perSubject: perSubject)
    }

    private mutating func takeSequence() -> UInt64 {
        nextSequence += 1
        return nextSequence
    }

    /// Keeps `waiting` in order of arrival. O(1) for a newcomer.
    private mutating func insert(_ waiter: Waiter) {
        refusals.changeWaiters(of: waiter.binding, by: 1)
        var place = waiting.count
        while place > 0, waiting[place - 1].sequence > waiter.sequence { place -= 1 }
        waiting.insert(waiter, at: place)
    }

    /// Takes those whose counter may have room again out of the queue, and puts them before the newcomers.
    private mutating func joinedByWaiters(now: Instant) -> (LimitBatch, [UInt64]) {
        var batch = emptyBatch
        var sequences: [UInt64] = []
        var resting: Deque<Waiter> = []
        for waiter in waiting {
            if let reset = refusals.resetAt(of: waiter.binding), reset > now {
                resting.append(waiter)
            } else {
                refusals.changeWaiters(of: waiter.binding, by: -1)
                batch.append(waiter.request)
                sequences.append(waiter.sequence)
            }
        }
        waiting = resting
        for (request, sequence) in zip(arrived.requests, arrivedSequences) {
            batch.append(request)
            sequences.append(sequence)
        }
        return (batch, sequences)
    }

    private func unsatisfiable(_ request: LimitRequest, hasSubject: Bool) -> LimitAnswer? {
        for index in definitions.indices {
            let definition = definitions[index]
            guard request.cost > definition.limit, !definition.isPerSubject || hasSubject else { continue }
            return LimitAnswer(
                retryAfter: LimitAnswer.neverSatisfiable, limit: definition.limit, remaining: definition.limit,
                resetAfter: 0, limitIndex: index)
        }
        return nil
    }

    private mutating func knownRefusal(
        of request: LimitRequest, hasSubject: Bool, now: Instant
    ) -> (RefusalMemory.CounterID, RefusalMemory.Refusal)? {
        var found: (RefusalMemory.CounterID, RefusalMemory.Refusal)?
        for index in definitions.indices {
            let isPerSubject = definitions[index].isPerSubject
            guard !isPerSubject || hasSubject else { continue }
            let id = RefusalMemory.CounterID(definition: index, subject: isPerSubject ? request.subject : nil)
            guard let refusal = refusals.refusal(of: id, cost: request.cost, now: now) else { continue }
            if let (_, longest) = found, refusal.resetAt <= longest.resetAt { continue }
            found = (id, refusal)
        }
        return found
    }

    private func answer(
        for refusal: RefusalMemory.Refusal, counter: RefusalMemory.CounterID, now: Instant
    ) -> LimitAnswer {
        let wait = max(1, refusal.resetAt.millisecondsRoundedUp(since: now))
        return LimitAnswer(
            retryAfter: wait, limit: definitions[counter.definition].limit, remaining: refusal.remaining,
            resetAfter: wait, limitIndex: counter.definition)
    }

    private func answerOnLeaving(_ waiter: Waiter, now: Instant) -> LimitAnswer {
        let wait = max(1, refusals.resetAt(of: waiter.binding)?.millisecondsRoundedUp(since: now) ?? 1)
        return LimitAnswer(
            retryAfter: wait, limit: definitions[waiter.binding.definition].limit, remaining: 0, resetAfter: wait,
            limitIndex: waiter.binding.definition)
    }

    /// The counter with the least left; of equals, the one that stays so for longest.
    private static func tightest(
        of wide: Range<Int>, and narrow: Range<Int>, used: [Int64], limits: [Int64], verdict: LimitVerdict
    ) -> Int {
        if narrow.isEmpty && wide.count == 1 { return wide.lowerBound }
        var best = wide.isEmpty ? narrow.lowerBound : wide.lowerBound
        func consider(_ index: Int) {
            let left = limits[index] - used[index]
            let least = limits[best] - used[best]
            if left < least || (left == least && verdict.counters[index].ttl > verdict.counters[best].ttl) { best = index }
        }
        for index in wide { consider(index) }
        for index in narrow { consider(index) }
        return best
    }
}
