extension ServiceLimiter {
    /// What is needed while the verdict on one batch is taken in.
    private struct Judgement {
        let batch: ServiceBatch
        let verdict: LimitVerdict
        let sentAt: Instant
        let now: Instant
        let sidecars: Int
        /// `false`: a reload came meanwhile. The verdict stands, but says nothing of the new limits.
        let isCurrent: Bool
        /// What is taken of each counter, after the calls that were settled.
        var used: [Int64]
        /// Of each counter that refused something: what those cost who wait for it since; `nil`: it refused nothing.
        var ahead: [Int64?] = []
        /// Calls that are to be judged again.
        var again: [(request: LimitRequest, sequence: UInt64)] = []

        mutating func refused(by counter: Int) {
            if ahead.isEmpty { ahead = Array(repeating: nil, count: used.count) }
            ahead[counter] = ahead[counter] ?? 0
        }

        func hasRefused(_ counter: Int) -> Bool { !ahead.isEmpty && ahead[counter] != nil }
    }

    /// The verdict on a batch under way: appends an answer for each call that has one; the others wait on.
    /// - Parameters:
    ///   - sentAt: before the batch was sent.
    package mutating func settle(
        _ verdict: LimitVerdict, of batch: ServiceBatch, sentAt: Instant, now: Instant, sidecars: Int = 1,
        into settlements: inout [Settlement]
    ) {
        guard removeFromFlight(batch) else { return }
        var judgement = Judgement(
            batch: batch, verdict: verdict, sentAt: sentAt, now: now, sidecars: sidecars,
            isCurrent: batch.limits.definitions == definitions, used: verdict.counters.map(\.count))
        var place = 0
        for run in batch.limits.runs {
            let decided = verdict.decision(on: run, of: batch.limits)
            var callsLeft = run.count
            var grantsLeft = decided.granted
            while callsLeft > 0 {
                let request = batch.requests[place]
                let granted = min(grantsLeft, request.count)
                callsLeft -= request.count
                grantsLeft -= granted
                if granted > 0 {
                    let answer = grant(granted, run.charges, &judgement)
                    settlements.append(
                        Settlement(
                            id: request.id, answer: answer, place: place, calls: 0..<granted,
                            isLast: granted == request.count, step: request.cost))
                }
                if granted < request.count {
                    refuse(
                        request, from: granted, sequence: batch.sequences[place], place: place, decided, &judgement,
                        into: &settlements)
                }
                place += 1
            }
        }
        if !judgement.again.isEmpty { putBack(judgement.again) }
        guard judgement.isCurrent else { return }
        windowEnds.note(batch.limits, verdict)
        note(judgement)
        if !judgement.ahead.isEmpty, hasArrivals { reconsiderArrivals(now: now, into: &settlements) }
    }

    /// Counts the first calls of a request as granted; the answer to the first of them.
    private func grant(_ calls: Int, _ charges: Range<Int>, _ judgement: inout Judgement) -> LimitAnswer {
        for charge in judgement.batch.limits.charges[charges] { take(Int64(calls), charge, &judgement) }
        let tightest = Self.tightest(of: charges, judgement)
        let counter = judgement.verdict.counters[tightest]
        let others = judgement.batch.limits.charges[charges.lowerBound].cost * Int64(calls - 1)
        return LimitAnswer(
            .taken, limit: Self.bound(of: tightest, judgement),
            remaining: max(0, counter.capacity - judgement.used[tightest] + others),
            resetAfter: max(1, counter.resetAfter),
            limitName: judgement.batch.limits.definition(of: tightest).name)
    }

    private func take(_ calls: Int64, _ charge: LimitBatch.Charge, _ judgement: inout Judgement) {
        let (index, cost) = (charge.counter, charge.cost)
        guard judgement.batch.limits.isShadow(index) else {
            judgement.used[index] += calls * cost
            return
        }
        let room = max(0, judgement.verdict.counters[index].capacity - judgement.used[index])
        judgement.used[index] += min(calls, room / cost) * cost
    }

    /// A request that a counter refused, but for its first calls: it waits when it may, else it is answered.
    private mutating func refuse(
        _ request: LimitRequest, from first: Int, sequence: UInt64, place: Int, _ decided: LimitVerdict.Decision,
        _ judgement: inout Judgement, into settlements: inout [Settlement]
    ) {
        let index = decided.binding
        let counter = judgement.batch.limits.counters[index]
        let definition = judgement.batch.limits.definitions[counter.definition]
        // What can never be granted is said of the limits as they are now: a reload may have made room for it.
        guard judgement.isCurrent || request.cost <= definition.capacity else {
            judgement.again.append((request, sequence))
            return
        }
        let judged = judgement.verdict.counters[index]
        let remaining = max(0, judged.capacity - judgement.used[index])
        // There was room: it was refused for the sake of somebody before it who waits. Is nobody waiting here after all, it
        // is judged again.
        if remaining >= request.cost, (judgement.hasRefused(index) ? judgement.ahead[index] ?? 0 : 0) == 0, first == 0 {
            judgement.again.append((request, sequence))
            return
        }
        let isFirst = !judgement.hasRefused(index)
        judgement.refused(by: index)
        let isSatisfiable = request.cost <= definition.capacity
        let id = RefusalMemory.CounterID(definition: counter.definition, subject: counter.name)
        // The least that is known of those who wait before it.
        let refusal = RefusalMemory.Refusal(
            cost: request.cost, of: definition, limit: Self.bound(of: index, judgement), remaining: remaining,
            retryAfterMicroseconds: decided.retryAfterMicroseconds, resetAfter: judged.resetAfter,
            sentAt: judgement.sentAt, now: judgement.now)
        var earliest = refusal.retryAt
        // What costs more than this sidecar's share has no turn here.
        var mayWait = isSatisfiable && request.cost <= judged.capacity
        mayWait = mayWait && hasPlace(for: request)
        if judgement.isCurrent, isSatisfiable {
            let ahead = (judgement.ahead[index] ?? 0)
            if isFirst || ahead == 0 {
                let isAwaited = mayWait && request.deadline != nil
                remember(refusal, of: id, index, isFirst: isFirst, isAwaited: isAwaited, judgement)
            }
            if let known = refusals[id] {
                earliest = max(earliest, known.earliest(for: request.cost, ahead: ahead, of: definition))
            }
        }
        if mayWait, let deadline = request.deadline, earliest <= deadline {
            guard judgement.isCurrent else {
                arrived.append(request, sequence: sequence)
                return
            }
            judgement.ahead[index] = (judgement.ahead[index] ?? 0) + request.cost
            insert(Waiter(request: request, deadline: deadline, binding: id, sequence: sequence))
            return
        }
        var answer = LimitAnswer(
            .neverPossible, limit: Self.bound(of: index, judgement), remaining: remaining,
            resetAfter: 0, limitName: definition.name)
        if isSatisfiable {
            let wait = Self.wait(until: earliest, now: judgement.now)
            answer.outcome = .refused(retryAfter: wait)
            answer.resetAfter = max(wait, judged.resetAfter)
        }
        settlements.append(Settlement(id: request.id, answer: answer, place: place, calls: first..<request.count))
    }

    private mutating func remember(
        _ refusal: RefusalMemory.Refusal, of id: RefusalMemory.CounterID, _ index: Int, isFirst: Bool, isAwaited: Bool,
        _ judgement: Judgement
    ) {
        var refusal = refusal
        let definition = definitions[id.definition]
        let hasGranted = judgement.used[index] > judgement.verdict.counters[index].count
        if let known = refusals[id] {
            refusal.waiters = known.waiters
            refusal.costAhead = known.costAhead
            refusal.rounds = known.rounds
            if refusal.holdsForMore, known.until > judgement.now { refusal.cost = min(refusal.cost, known.cost) }
            if isFirst { refusal.rounds = known.hasGranted || hasGranted ? 0 : known.rounds + 1 }
        } else if !hasGranted {
            refusal.rounds = 1
        }
        let delay = TurnSharing.delay(of: definition, rounds: refusal.rounds, sidecars: judgement.sidecars)
        refusal.releaseAt = refusal.retryAt.advanced(byMicroseconds: delay)
        // Whose turn comes soon after does not ask twice.
        let holdsUntil = judgement.now.advanced(byMilliseconds: RefusalMemory.relianceMilliseconds)
        if refusal.releaseAt > holdsUntil.advanced(byMilliseconds: RefusalMemory.relianceMilliseconds / 4) {
            refusal.releaseAt = holdsUntil
        }
        refusals.remember(refusal, of: id, isAwaited: isAwaited, now: judgement.now)
    }

    /// What the batch changed for those who watch, and for those who wait.
    private mutating func note(_ judgement: Judgement) {
        let areRefusalsKnown = !refusals.isEmpty
        for (index, counter) in judgement.batch.limits.counters.enumerated() {
            let judged = judgement.verdict.counters[index]
            let after = judgement.used[index]
            let isRefused = judgement.hasRefused(index)
            notices.judged(
                counter, before: judged.count, after: after, capacity: judged.capacity, excess: judged.excess,
                isRefused: isRefused, now: judgement.now)
            if areRefusalsKnown, !isRefused, after > judged.count {
                refusals.granted(by: RefusalMemory.CounterID(definition: counter.definition, subject: counter.name))
            }
        }
    }

    /// Calls came while others were refused: what is now known holds for them, and they stand behind those who wait.
    private mutating func reconsiderArrivals(now: Instant, into settlements: inout [Settlement]) {
        for (request, sequence) in removeArrivals().calls {
            // Those who came after it are not before it.
            let isFirst = !waiting.isEmpty && waiting.allSatisfy { $0.sequence > sequence }
            guard !isFirst, let known = knownRefusal(of: request, now: now) else {
                arrived.append(request, sequence: sequence)
                continue
            }
            if let deadline = request.deadline, known.until <= deadline, hasPlace(for: request) {
                insert(Waiter(request: request, deadline: deadline, binding: known.counter, sequence: sequence))
            } else {
                settlements.append(
                    Settlement(id: request.id, answer: known.answer, place: nil, calls: 0..<request.count))
            }
        }
    }

    /// The bound that callers are told of: of a `gcra` limit its limit, not what it grants at once.
    private static func bound(of index: Int, _ judgement: Judgement) -> Int64 {
        let definition = judgement.batch.limits.definition(of: index)
        if case .gcra = definition.algorithm { return definition.limit }
        return judgement.verdict.counters[index].capacity
    }

    /// The counter with the least left; of equals, the one that stays so for longest. A shadow only when there is no other.
    private static func tightest(of charges: Range<Int>, _ judgement: Judgement) -> Int {
        if charges.count == 1 { return judgement.batch.limits.charges[charges.lowerBound].counter }
        let limits = judgement.batch.limits
        var best: (index: Int, isShadow: Bool, left: Int64)?
        func consider(_ index: Int) {
            let counter = judgement.verdict.counters[index]
            let isShadow = limits.isShadow(index)
            let left = counter.capacity - judgement.used[index]
            if let best {
                guard best.isShadow || !isShadow else { return }
                let staysLonger = counter.resetAfter > judgement.verdict.counters[best.index].resetAfter
                let isTighter = left < best.left || (left == best.left && staysLonger)
                guard isTighter || (best.isShadow && !isShadow) else { return }
            }
            best = (index, isShadow, left)
        }
        for charge in limits.charges[charges] { consider(charge.counter) }
        return best?.index ?? 0
    }
}

extension ServiceLimiter {
    /// What became of the calls of a request, or of some of them.
    package struct Settlement: Equatable, Sendable {
        package var id: Int
        /// The answer to the first of these calls.
        package var answer: LimitAnswer
        /// Its place in the batch; `nil`: it did not travel.
        package var place: Int?
        /// Which of the request's calls these are.
        package var calls: Range<Int>
        /// No other settlement of the request follows.
        package var isLast: Bool
        /// How much less each further call leaves than the one before it.
        package var step: Int64

        package init(
            id: Int, answer: LimitAnswer, place: Int?, calls: Range<Int> = 0..<1, isLast: Bool = true, step: Int64 = 0
        ) {
            self.id = id
            self.answer = answer
            self.place = place
            self.calls = calls
            self.isLast = isLast
            self.step = step
        }
    }
}
