extension ServiceLimiter {
    /// The state while the verdict on one batch is applied.
    private struct Evaluation {
        let batch: ServiceBatch
        let verdict: BatchVerdict
        let sentAt: Instant
        let now: Instant
        let sidecars: Int
        /// Whether the batch has the current limits. After a reload its verdict is still valid, but says nothing about
        /// the new limits.
        let isCurrent: Bool
        /// The usage of each counter after the calls handled so far.
        var used: [Int64]
        /// For each counter, the total cost of the calls that now wait for it; `nil` if it has refused no call. Empty
        /// until a counter refuses one.
        var ahead: [Int64?] = []
        /// The calls to evaluate again.
        var toReevaluate: [(request: LimitRequest, sequence: UInt64)] = []

        mutating func refused(by counter: Int) {
            if ahead.isEmpty { ahead = Array(repeating: nil, count: used.count) }
            ahead[counter] = ahead[counter] ?? 0
        }

        func hasRefused(_ counter: Int) -> Bool { !ahead.isEmpty && ahead[counter] != nil }
    }

    /// Applies the verdict on a batch in flight: appends a resolution for each answered call. The other calls keep
    /// waiting.
    /// - Parameters:
    ///   - sentAt: a time before the batch was sent.
    package mutating func apply(
        _ verdict: BatchVerdict, of batch: ServiceBatch, sentAt: Instant, now: Instant, sidecars: Int = 1,
        into resolutions: inout [CallResolution]
    ) {
        guard removeInFlight(batch) else { return }
        var evaluation = Evaluation(
            batch: batch, verdict: verdict, sentAt: sentAt, now: now, sidecars: sidecars,
            isCurrent: batch.limits.definitions == definitions, used: verdict.counters.map(\.count))
        var requestIndex = 0
        for run in batch.limits.runs {
            let decided = verdict.decision(on: run, of: batch.limits)
            var callsLeft = run.count
            var grantsLeft = decided.granted
            while callsLeft > 0 {
                let request = batch.requests[requestIndex]
                let granted = min(grantsLeft, request.count)
                callsLeft -= request.count
                grantsLeft -= granted
                if granted > 0 {
                    let answer = grant(granted, cost: request.cost, run.charges, &evaluation)
                    resolutions.append(
                        CallResolution(
                            id: request.id, answer: answer, requestIndex: requestIndex, calls: 0..<granted,
                            isLast: granted == request.count, step: request.cost))
                }
                if granted < request.count {
                    refuse(
                        request, from: granted, sequence: batch.sequences[requestIndex], requestIndex: requestIndex, decided,
                        &evaluation,
                        into: &resolutions)
                }
                requestIndex += 1
            }
        }
        if !evaluation.toReevaluate.isEmpty { putBack(evaluation.toReevaluate) }
        guard evaluation.isCurrent else { return }
        windowEnds.note(batch.limits, verdict)
        note(evaluation)
        if !evaluation.ahead.isEmpty, hasArrivals { reconsiderArrivals(now: now, into: &resolutions) }
    }

    /// Counts the first calls of a request as granted. Returns the answer to the first of them.
    private func grant(
        _ calls: Int, cost: Int64, _ charges: Range<Int>, _ evaluation: inout Evaluation
    ) -> CallDecision {
        for charge in evaluation.batch.limits.charges[charges] { take(Int64(calls), charge, &evaluation) }
        let tightest = Self.tightest(of: charges, evaluation)
        let counter = evaluation.verdict.counters[tightest]
        let others = cost * Int64(calls - 1)
        return CallDecision(
            .taken, limit: Self.bound(of: tightest, evaluation),
            remaining: max(0, counter.capacity - evaluation.used[tightest] + others),
            resetAfter: max(1, counter.resetAfter),
            limitName: evaluation.batch.limits.definition(of: tightest).name)
    }

    private func take(_ calls: Int64, _ charge: LimitBatch.Charge, _ evaluation: inout Evaluation) {
        let (index, cost) = (charge.counter, charge.cost)
        guard evaluation.batch.limits.isShadow(index) else {
            evaluation.used[index] += calls * cost
            return
        }
        let available = max(0, evaluation.verdict.counters[index].capacity - evaluation.used[index])
        evaluation.used[index] += min(calls, available / cost) * cost
    }

    /// Queues a request's refused calls, those from index `first` on, if they may wait. Otherwise refuses them.
    private mutating func refuse(
        _ request: LimitRequest, from first: Int, sequence: UInt64, requestIndex: Int, _ decided: BatchVerdict.RunDecision,
        _ evaluation: inout Evaluation, into resolutions: inout [CallResolution]
    ) {
        let index = decided.binding
        let counter = evaluation.batch.limits.counters[index]
        let definition = evaluation.batch.limits.definitions[counter.definition]
        // A cost above the old capacity is evaluated again, since a reload may have raised the limit.
        guard evaluation.isCurrent || request.cost <= definition.capacity else {
            evaluation.toReevaluate.append((request, sequence))
            return
        }
        let judged = evaluation.verdict.counters[index]
        let remaining = max(0, judged.capacity - evaluation.used[index])
        // The counter had capacity, so an earlier waiting call blocked this one. If no local call is waiting,
        // re-evaluate it.
        if remaining >= request.cost, (evaluation.hasRefused(index) ? evaluation.ahead[index] ?? 0 : 0) == 0, first == 0 {
            evaluation.toReevaluate.append((request, sequence))
            return
        }
        let isFirst = !evaluation.hasRefused(index)
        evaluation.refused(by: index)
        let isSatisfiable = request.cost <= definition.capacity
        let id = RefusalMemory.CounterID(definition: counter.definition, subject: counter.name)
        // A lower bound: the calls that wait ahead are added below.
        let refusal = RefusalMemory.Refusal(
            cost: request.cost, of: definition, limit: Self.bound(of: index, evaluation), remaining: remaining,
            retryAfterMicroseconds: decided.retryAfterMicroseconds, resetAfter: judged.resetAfter,
            sentAt: evaluation.sentAt, now: evaluation.now)
        var earliest = refusal.retryAt
        // A call that costs more than this sidecar's quota can never be granted here.
        var mayWait = isSatisfiable && request.cost <= judged.capacity
        mayWait = mayWait && hasCapacity(for: request)
        if evaluation.isCurrent, isSatisfiable {
            let ahead = (evaluation.ahead[index] ?? 0)
            if isFirst || ahead == 0 {
                let isAwaited = mayWait && request.deadline != nil
                remember(refusal, of: id, index, isFirst: isFirst, isAwaited: isAwaited, evaluation)
            }
            if let known = refusals[id] {
                earliest = max(earliest, known.earliest(for: request.cost, ahead: ahead, of: definition))
            }
        }
        if mayWait, let deadline = request.deadline, earliest <= deadline {
            guard evaluation.isCurrent else {
                arrived.append(request, sequence: sequence)
                return
            }
            evaluation.ahead[index] = (evaluation.ahead[index] ?? 0) + request.cost
            insert(Waiter(request: request, deadline: deadline, binding: id, sequence: sequence))
            return
        }
        var answer = CallDecision(
            .neverSatisfiable, limit: Self.bound(of: index, evaluation), remaining: remaining,
            resetAfter: 0, limitName: definition.name)
        if isSatisfiable {
            let wait = Self.wait(until: earliest, now: evaluation.now)
            answer.outcome = .refused(retryAfter: wait)
            answer.resetAfter = max(wait, judged.resetAfter)
        }
        resolutions.append(
            CallResolution(id: request.id, answer: answer, requestIndex: requestIndex, calls: first..<request.count))
    }

    private mutating func remember(
        _ refusal: RefusalMemory.Refusal, of id: RefusalMemory.CounterID, _ index: Int, isFirst: Bool, isAwaited: Bool,
        _ evaluation: Evaluation
    ) {
        var refusal = refusal
        let definition = definitions[id.definition]
        let hasGranted = evaluation.used[index] > evaluation.verdict.counters[index].count
        if let known = refusals[id] {
            refusal.waiters = known.waiters
            refusal.costAhead = known.costAhead
            refusal.misses = known.misses
            if refusal.appliesToHigherCosts, known.until > evaluation.now { refusal.cost = min(refusal.cost, known.cost) }
            if isFirst { refusal.misses = known.hasGranted || hasGranted ? 0 : known.misses + 1 }
        } else if !hasGranted {
            refusal.misses = 1
        }
        let delay = CapacitySplit.delay(of: definition, misses: refusal.misses, sidecars: evaluation.sidecars)
        refusal.releaseAt = refusal.retryAt.advanced(byMicroseconds: delay)
        // Waiting calls retry at `holdsUntil`, unless their turn comes shortly after it: then they retry only
        // once.
        let holdsUntil = evaluation.now.advanced(byMilliseconds: RefusalMemory.maximumAgeMilliseconds)
        if refusal.releaseAt > holdsUntil.advanced(byMilliseconds: RefusalMemory.maximumAgeMilliseconds / 4) {
            refusal.releaseAt = holdsUntil
        }
        refusals.remember(refusal, of: id, isAwaited: isAwaited, now: evaluation.now)
    }

    /// Updates notices and remembered refusals after a batch.
    private mutating func note(_ evaluation: Evaluation) {
        let hasRefusals = !refusals.isEmpty
        for (index, counter) in evaluation.batch.limits.counters.enumerated() {
            let judged = evaluation.verdict.counters[index]
            let after = evaluation.used[index]
            let isRefused = evaluation.hasRefused(index)
            notices.judged(
                counter, before: judged.count, after: after, capacity: judged.capacity, excess: judged.excess,
                isRefused: isRefused, now: evaluation.now)
            if hasRefusals, !isRefused, after > judged.count {
                refusals.recordGrant(by: RefusalMemory.CounterID(definition: counter.definition, subject: counter.name))
            }
        }
    }

    /// Applies the refusals to calls that arrived meanwhile: each one waits behind earlier calls or is refused.
    private mutating func reconsiderArrivals(now: Instant, into resolutions: inout [CallResolution]) {
        for (request, sequence) in removeArrivals().calls {
            // A call that arrived before every waiting call does not queue behind them.
            let isFirst = !waiting.isEmpty && waiting.allSatisfy { $0.sequence > sequence }
            guard !isFirst, let known = knownRefusal(of: request, now: now) else {
                arrived.append(request, sequence: sequence)
                continue
            }
            if let deadline = request.deadline, known.until <= deadline, hasCapacity(for: request) {
                insert(Waiter(request: request, deadline: deadline, binding: known.counter, sequence: sequence))
            } else {
                resolutions.append(
                    CallResolution(id: request.id, answer: known.answer, requestIndex: nil, calls: 0..<request.count))
            }
        }
    }

    /// Returns the limit shown to callers. For `gcra` this is the configured limit and not the burst capacity.
    private static func bound(of index: Int, _ evaluation: Evaluation) -> Int64 {
        let definition = evaluation.batch.limits.definition(of: index)
        if case .gcra = definition.algorithm { return definition.limit }
        return evaluation.verdict.counters[index].capacity
    }

    /// Returns the counter with the least remaining capacity; if several are equal, the one that resets last. A shadow
    /// limit is chosen only if there is no other.
    private static func tightest(of charges: Range<Int>, _ evaluation: Evaluation) -> Int {
        if charges.count == 1 { return evaluation.batch.limits.charges[charges.lowerBound].counter }
        let limits = evaluation.batch.limits
        var best: (index: Int, isShadow: Bool, left: Int64)?
        func consider(_ index: Int) {
            let counter = evaluation.verdict.counters[index]
            let isShadow = limits.isShadow(index)
            let left = counter.capacity - evaluation.used[index]
            if let best {
                guard best.isShadow || !isShadow else { return }
                let staysLonger = counter.resetAfter > evaluation.verdict.counters[best.index].resetAfter
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
    /// The result for some or all calls of a request.
    package struct CallResolution: Equatable, Sendable {
        package var id: Int
        /// The decision about the first of these calls.
        package var answer: CallDecision
        /// The request's index in the batch; `nil` if it was not sent.
        package var requestIndex: Int?
        /// The indices of these calls among those of the request.
        package var calls: Range<Int>
        /// Whether this is the request's last resolution.
        package var isLast: Bool
        /// The amount by which each further call reduces `answer.remaining`.
        package var step: Int64

        package init(
            id: Int, answer: CallDecision, requestIndex: Int?, calls: Range<Int> = 0..<1, isLast: Bool = true, step: Int64 = 0
        ) {
            self.id = id
            self.answer = answer
            self.requestIndex = requestIndex
            self.calls = calls
            self.isLast = isLast
            self.step = step
        }
    }
}
