extension ServiceLimiter {
    /// The state during the application of the verdict on one batch.
    private struct Evaluation {
        let batch: ServiceBatch
        let verdict: BatchVerdict
        let sentAt: Instant
        let now: Instant
        let sidecars: Int
        /// Whether the batch has the current limits. After a reload, the verdict on an older batch remains valid, but
        /// says nothing about the new limits.
        let isCurrent: Bool
        /// The usage of each counter after the calls handled so far.
        var used: [Int64]
        /// The total cost of the refused calls that now wait for each counter; `nil` for a counter that has refused no
        /// call. Empty until a counter refuses a call.
        var costAhead: [Int64?] = []
        /// The calls to evaluate again.
        var toReevaluate: [(request: LimitRequest, sequence: UInt64)] = []

        mutating func recordRefusal(by counterIndex: Int) {
            if costAhead.isEmpty { costAhead = Array(repeating: nil, count: used.count) }
            costAhead[counterIndex] = costAhead[counterIndex] ?? 0
        }

        func hasRefused(_ counterIndex: Int) -> Bool { !costAhead.isEmpty && costAhead[counterIndex] != nil }
    }

    /// Applies the verdict on a batch in flight, and appends the resolutions of the granted and the refused calls. The
    /// other calls wait or join the next batch.
    /// - Parameter sentAt: a time before the batch was sent.
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
            let runDecision = verdict.decision(on: run, of: batch.limits)
            var callsLeft = run.count
            var grantsLeft = runDecision.grantedCount
            while callsLeft > 0 {
                let request = batch.requests[requestIndex]
                let granted = min(grantsLeft, request.count)
                callsLeft -= request.count
                grantsLeft -= granted
                if granted > 0 {
                    let decision = grant(granted, cost: request.cost, run.charges, &evaluation)
                    resolutions.append(
                        CallResolution(
                            id: request.id, decision: decision, requestIndex: requestIndex, calls: 0..<granted,
                            isLast: granted == request.count, step: request.cost))
                }
                if granted < request.count {
                    refuse(
                        request, from: granted, sequence: batch.sequences[requestIndex], requestIndex: requestIndex,
                        runDecision, &evaluation, into: &resolutions)
                }
                requestIndex += 1
            }
        }
        if !evaluation.toReevaluate.isEmpty { putBack(evaluation.toReevaluate) }
        guard evaluation.isCurrent else { return }
        windowEnds.record(batch.limits, verdict)
        updateNotices(evaluation)
        if !evaluation.costAhead.isEmpty, hasArrivals { reconsiderArrivals(now: now, into: &resolutions) }
    }

    /// Counts the first calls of a request as granted.
    /// - Returns: the decision about the first of them.
    private func grant(
        _ calls: Int, cost: Int64, _ charges: Range<Int>, _ evaluation: inout Evaluation
    ) -> CallDecision {
        for charge in evaluation.batch.limits.charges[charges] { take(Int64(calls), charge, &evaluation) }
        let index = Self.tightestCounter(of: charges, evaluation)
        let counter = evaluation.verdict.counters[index]
        let laterCost = cost * Int64(calls - 1)
        return CallDecision(
            .taken, limit: Self.shownLimit(of: index, evaluation),
            remaining: max(0, counter.capacity - evaluation.used[index] + laterCost),
            resetAfterMilliseconds: max(1, counter.resetAfterMilliseconds),
            limitName: evaluation.batch.limits.definition(of: index).name)
    }

    /// Counts `calls` times the cost of `charge` as used. A shadow limit counts only what fits.
    private func take(_ calls: Int64, _ charge: LimitBatch.Charge, _ evaluation: inout Evaluation) {
        let (index, cost) = (charge.counterIndex, charge.cost)
        guard evaluation.batch.limits.isShadow(index) else {
            evaluation.used[index] += calls * cost
            return
        }
        let available = max(0, evaluation.verdict.counters[index].capacity - evaluation.used[index])
        evaluation.used[index] += min(calls, available / cost) * cost
    }

    /// Queues the calls of a request that were not granted, if they may wait. Otherwise refuses them.
    /// - Parameter firstCall: the index of the first of these calls in the request.
    private mutating func refuse(
        _ request: LimitRequest, from firstCall: Int, sequence: UInt64, requestIndex: Int,
        _ runDecision: BatchVerdict.RunDecision, _ evaluation: inout Evaluation,
        into resolutions: inout [CallResolution]
    ) {
        let index = runDecision.bindingIndex
        let counter = evaluation.batch.limits.counters[index]
        let definition = evaluation.batch.limits.definitions[counter.definitionIndex]
        // Evaluate a cost above the old capacity again, because a reload may have raised the limit.
        guard evaluation.isCurrent || request.cost <= definition.capacity else {
            evaluation.toReevaluate.append((request, sequence))
            return
        }
        let counterState = evaluation.verdict.counters[index]
        let remaining = max(0, counterState.capacity - evaluation.used[index])
        // The counter had capacity, so an earlier waiting call blocked this one. If no local call is waiting,
        // re-evaluate it.
        let waitingCost = evaluation.hasRefused(index) ? evaluation.costAhead[index] ?? 0 : 0
        if remaining >= request.cost, waitingCost == 0, firstCall == 0 {
            evaluation.toReevaluate.append((request, sequence))
            return
        }
        let isFirstRefusal = !evaluation.hasRefused(index)
        evaluation.recordRefusal(by: index)
        let isSatisfiable = request.cost <= definition.capacity
        let id = RefusalMemory.CounterID(definitionIndex: counter.definitionIndex, subject: counter.name)
        // Does not consider the calls that wait ahead, which the code below adds.
        let refusal = RefusalMemory.Refusal(
            cost: request.cost, of: definition, limit: Self.shownLimit(of: index, evaluation), remaining: remaining,
            retryAfterMicroseconds: runDecision.retryAfterMicroseconds,
            resetAfterMilliseconds: counterState.resetAfterMilliseconds,
            sentAt: evaluation.sentAt, now: evaluation.now)
        var earliest = refusal.retryAt
        // A call that costs more than this sidecar's quota can never be granted here.
        let mayWait = isSatisfiable && request.cost <= counterState.capacity && hasCapacity(for: request)
        if evaluation.isCurrent, isSatisfiable {
            let costAhead = evaluation.costAhead[index] ?? 0
            if isFirstRefusal || costAhead == 0 {
                let isAwaited = mayWait && request.deadline != nil
                remember(refusal, of: id, index, isFirst: isFirstRefusal, isAwaited: isAwaited, evaluation)
            }
            if let remembered = refusals[id] {
                earliest = max(earliest, remembered.earliest(for: request.cost, ahead: costAhead, of: definition))
            }
        }
        if mayWait, let deadline = request.deadline, earliest <= deadline {
            guard evaluation.isCurrent else {
                arrived.append(request, sequence: sequence)
                return
            }
            evaluation.costAhead[index] = (evaluation.costAhead[index] ?? 0) + request.cost
            insert(Waiter(request: request, deadline: deadline, binding: id, sequence: sequence))
            return
        }
        var decision = CallDecision(
            .neverSatisfiable, limit: Self.shownLimit(of: index, evaluation), remaining: remaining,
            resetAfterMilliseconds: 0, limitName: definition.name)
        if isSatisfiable {
            let waitMilliseconds = Self.waitMilliseconds(until: earliest, now: evaluation.now)
            decision.outcome = .refused(retryAfterMilliseconds: waitMilliseconds)
            decision.resetAfterMilliseconds = max(waitMilliseconds, counterState.resetAfterMilliseconds)
        }
        resolutions.append(
            CallResolution(
                id: request.id, decision: decision, requestIndex: requestIndex, calls: firstCall..<request.count))
    }

    /// Remembers a refusal, together with the counter's waiting calls and misses.
    /// - Parameter isFirst: whether the counter refused no earlier call of the batch.
    private mutating func remember(
        _ refusal: RefusalMemory.Refusal, of id: RefusalMemory.CounterID, _ index: Int, isFirst: Bool, isAwaited: Bool,
        _ evaluation: Evaluation
    ) {
        var refusal = refusal
        let definition = definitions[id.definitionIndex]
        let hasGranted = evaluation.used[index] > evaluation.verdict.counters[index].count
        if let former = refusals[id] {
            refusal.waiters = former.waiters
            refusal.costAhead = former.costAhead
            refusal.misses = former.misses
            if refusal.appliesToHigherCosts, former.until > evaluation.now {
                refusal.cost = min(refusal.cost, former.cost)
            }
            if isFirst { refusal.misses = former.hasGranted || hasGranted ? 0 : former.misses + 1 }
        } else if !hasGranted {
            refusal.misses = 1
        }
        let delayMicroseconds = CapacitySplit.delayMicroseconds(
            of: definition, misses: refusal.misses, sidecars: evaluation.sidecars)
        refusal.releaseAt = refusal.retryAt.advanced(byMicroseconds: delayMicroseconds)
        // The refusal is trusted until `trustedUntil`, and waiting calls retry then. If their turn comes shortly
        // afterwards, they retry only at their turn.
        let trustedUntil = evaluation.now.advanced(byMilliseconds: RefusalMemory.maximumAgeMilliseconds)
        if refusal.releaseAt > trustedUntil.advanced(byMilliseconds: RefusalMemory.maximumAgeMilliseconds / 4) {
            refusal.releaseAt = trustedUntil
        }
        refusals.remember(refusal, of: id, isAwaited: isAwaited, now: evaluation.now)
    }

    /// Adds the notices that follow from a batch, and records its grants at remembered refusals.
    private mutating func updateNotices(_ evaluation: Evaluation) {
        let hasRefusals = !refusals.isEmpty
        for (index, counter) in evaluation.batch.limits.counters.enumerated() {
            let counterState = evaluation.verdict.counters[index]
            let after = evaluation.used[index]
            let isRefused = evaluation.hasRefused(index)
            notices.counterEvaluated(
                counter, before: counterState.count, after: after, capacity: counterState.capacity,
                excess: counterState.excess, isRefused: isRefused, now: evaluation.now)
            if hasRefusals, !isRefused, after > counterState.count {
                refusals.recordGrant(
                    by: RefusalMemory.CounterID(definitionIndex: counter.definitionIndex, subject: counter.name))
            }
        }
    }

    /// Applies the remembered refusals to calls that arrived meanwhile: a refused call waits behind earlier calls, if
    /// it may, and is refused otherwise.
    private mutating func reconsiderArrivals(now: Instant, into resolutions: inout [CallResolution]) {
        for (request, sequence) in removeArrivals().calls {
            // A call that arrived before every waiting call stays in the next batch.
            let isFirst = !waiting.isEmpty && waiting.allSatisfy { $0.sequence > sequence }
            guard !isFirst, let refusal = knownRefusal(of: request, now: now) else {
                arrived.append(request, sequence: sequence)
                continue
            }
            if let deadline = request.deadline, refusal.until <= deadline, hasCapacity(for: request) {
                insert(Waiter(request: request, deadline: deadline, binding: refusal.counter, sequence: sequence))
            } else {
                resolutions.append(
                    CallResolution(
                        id: request.id, decision: refusal.decision, requestIndex: nil, calls: 0..<request.count))
            }
        }
    }

    /// Returns the limit that callers are shown. For `gcra` this is the configured limit and not the burst capacity.
    private static func shownLimit(of index: Int, _ evaluation: Evaluation) -> Int64 {
        let definition = evaluation.batch.limits.definition(of: index)
        if case .gcra = definition.algorithm { return definition.limit }
        return evaluation.verdict.counters[index].capacity
    }

    /// Returns the index of the counter with the least remaining capacity; among equal ones, of the one that resets
    /// last. Chooses a shadow limit only if all limits are shadows.
    private static func tightestCounter(of charges: Range<Int>, _ evaluation: Evaluation) -> Int {
        if charges.count == 1 { return evaluation.batch.limits.charges[charges.lowerBound].counterIndex }
        let limits = evaluation.batch.limits
        var tightest: (index: Int, isShadow: Bool, remaining: Int64)?
        func consider(_ index: Int) {
            let counter = evaluation.verdict.counters[index]
            let isShadow = limits.isShadow(index)
            let remaining = counter.capacity - evaluation.used[index]
            if let tightest {
                guard tightest.isShadow || !isShadow else { return }
                let resetsLater =
                    counter.resetAfterMilliseconds > evaluation.verdict.counters[tightest.index].resetAfterMilliseconds
                let isTighter = remaining < tightest.remaining || (remaining == tightest.remaining && resetsLater)
                guard isTighter || (tightest.isShadow && !isShadow) else { return }
            }
            tightest = (index, isShadow, remaining)
        }
        for charge in limits.charges[charges] { consider(charge.counterIndex) }
        return tightest?.index ?? 0
    }
}

extension ServiceLimiter {
    /// The result for some or all calls of a request.
    package struct CallResolution: Equatable, Sendable {
        /// The request's ID.
        package var id: Int
        /// The decision about the first of these calls.
        package var decision: CallDecision
        /// The request's index in the batch; `nil` if the request was not sent.
        package var requestIndex: Int?
        /// The indices of these calls among those of the request.
        package var calls: Range<Int>
        /// Whether this is the request's last resolution.
        package var isLast: Bool
        /// The amount by which each further call of `calls` reduces `decision.remaining`.
        package var step: Int64

        package init(
            id: Int, decision: CallDecision, requestIndex: Int?, calls: Range<Int> = 0..<1, isLast: Bool = true,
            step: Int64 = 0
        ) {
            self.id = id
            self.decision = decision
            self.requestIndex = requestIndex
            self.calls = calls
            self.isLast = isLast
            self.step = step
        }
    }
}
