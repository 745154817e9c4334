internal import DequeModule

/// The limits of one domain within one sidecar: which requests travel together, and what is already known. Nobody waits here: whoever
/// asks for a decision has milliseconds to hear it.
///
/// One batch is under way, and a second one follows it where there is work enough for both. The caller asks `nextBatch` at the end of
/// its tick, has the script judge it, and hands the verdict to `settle`.
package struct DomainLimiter: Sendable {
    /// What the caller is to do with a request that just came.
    package enum Admission: Sendable {
        /// Known without Redis.
        case answered(DescriptorAnswer)
        /// It travels with the next batch.
        case queued
    }

    /// What became of one request of a batch.
    package struct Settlement: Sendable {
        package var id: Int
        package var answer: DescriptorAnswer
    }

    private static let mostInFlight = 2
    private static let worthFollowing = 64

    package let domain: RateLimitDomain
    package let index: DescriptorIndex
    /// By how long their counters last at most, in milliseconds: what counts for a second is not remembered for a month.
    private var subjects: [Int64: SubjectBook] = [:]
    private var refusals = RefusalMemory()
    private var arrived: Deque<DescriptorBatch.Request> = []
    private var inFlight: [DescriptorBatch] = []
    private var batchCount: UInt64 = 0

    package init(domain: RateLimitDomain) {
        self.domain = domain
        index = DescriptorIndex(domain.rules)
    }

    /// How many descriptors have counters of their own.
    package func countersKnown(now: Instant) -> Int {
        subjects.reduce(0) { $0 + $1.value.count(windowMilliseconds: $1.key, now: now) }
    }

    package var hasArrivals: Bool { !arrived.isEmpty }
    /// Whether a batch may be sent now.
    package var mayFlush: Bool {
        inFlight.isEmpty || (inFlight.count < Self.mostInFlight && arrived.count >= Self.worthFollowing)
    }

    /// The domain's rules changed: what is remembered no longer holds. Requests that travel are judged by the rules they came under.
    package func redefined(_ domain: RateLimitDomain) -> DomainLimiter {
        var next = DomainLimiter(domain: domain)
        next.arrived = arrived
        next.inFlight = inFlight
        next.batchCount = batchCount
        return next
    }

    // MARK: Requests

    /// A request arrives. O(entries of its descriptors).
    package mutating func admit(_ asks: [DescriptorAsk], id: Int, now: Instant) -> Admission {
        var plan = DescriptorPlan(items: asks.map { item(for: $0, now: now) })
        dropReplaced(&plan, of: asks)
        let isRefused = plan.items.contains { $0.status.isOverLimit }
        // What is known to be refused takes nothing of the others.
        if isRefused, !domain.isIndependent { for place in plan.items.indices { plan.items[place].charge = nil } }
        guard plan.asks else { return .answered(answer(plan.items.map(\.status))) }
        arrived.append(DescriptorBatch.Request(id: id, plan: plan, at: now))
        return .queued
    }

    private mutating func item(for ask: DescriptorAsk, now: Instant) -> DescriptorPlan.Item {
        let match = index.match(ask.entries)
        if let override = ask.override { return item(for: ask, override: override, match, now: now) }
        guard let match else { return DescriptorPlan.Item(status: .init(isOverLimit: false, bound: .none, rule: nil)) }
        let rule = match.rule.rule
        switch rule.limit {
        case nil, .unlimited:
            return DescriptorPlan.Item(status: .init(isOverLimit: false, bound: .unlimited, rule: match.rule))
        case .blocked(let window):
            return blocked(rule: match.rule, isShadow: rule.isShadow, window: window, cost: ask.cost)
        case .rate(let limit, let isAligned):
            return item(for: ask, counter: match.counter, limit, isAligned, rule: match.rule, isShadow: rule.isShadow, now: now)
        }
    }

    /// The asker's own limit counts as the rule's would, and where there is none as the domain's rules do by default.
    private mutating func item(
        for ask: DescriptorAsk, override: DescriptorAsk.Override, _ match: DescriptorIndex.Match?, now: Instant
    ) -> DescriptorPlan.Item {
        guard override.limit > 0 else {
            return blocked(rule: match?.rule, isShadow: false, window: override.window, cost: ask.cost)
        }
        var limit = LimitDefinition(name: override.name, limit: override.limit, window: override.window)
        var isAligned = domain.countsRefused
        if let match, case .rate(let own, let isOwnAligned) = match.rule.rule.limit {
            limit.algorithm = own.algorithm
            isAligned = isOwnAligned
        }
        if limit.expectedOfAlgorithm != nil { limit.algorithm = .fixed }
        var counter = match?.counter ?? ""
        if counter.isEmpty {
            var name = CounterName()
            for entry in ask.entries { name.append(key: entry.key, value: entry.value) }
            counter = name.text
        }
        return item(for: ask, counter: counter, limit, isAligned, rule: match?.rule, isShadow: false, now: now)
    }

    /// The retry time of a limit of 0: a day, however short the window is.
    private func blocked(rule: DescriptorIndex.Rule?, isShadow: Bool, window: Duration, cost: Int64) -> DescriptorPlan.Item {
        var status = DescriptorStatus(
            isOverLimit: cost > 0 && !isShadow, bound: .limited(limit: 0, window: window), rule: rule,
            resetAfter: max(window, DescriptorLimit.blockedWindow).wholeMilliseconds)
        status.isShadowRefusal = cost > 0 && isShadow
        status.isShadow = isShadow || domain.isShadow
        return DescriptorPlan.Item(status: status)
    }

    private mutating func item(
        for ask: DescriptorAsk, counter: String, _ limit: LimitDefinition, _ isAligned: Bool, rule: DescriptorIndex.Rule?,
        isShadow: Bool,
        now: Instant
    ) -> DescriptorPlan.Item {
        var counter = counter
        let span = Self.span(of: limit)
        if !subjects[span, default: SubjectBook(capacity: domain.maximumCounters)]
            .takeIn(ask.override == nil ? counter : counter + ":" + limit.name, windowMilliseconds: span, now: now)
        {
            counter = SubjectBook.crowd + (rule.map { "." + $0.path } ?? "")
        }
        let bound = DescriptorStatus.Bound.limited(limit: limit.limit, window: limit.window)
        let known =
            refusals.isEmpty
            ? nil
            : refusals.refusal(
                of: Self.counterID(counter, limit, isAligned: isAligned), definition: limit, cost: ask.cost, now: now)
        if let known, ask.cost > 0, !isShadow {
            var status = DescriptorStatus(
                isOverLimit: true, bound: bound, rule: rule, remaining: known.refusal.remaining,
                resetAfter: max(1, known.refusal.wholeAt.millisecondsRoundedUp(since: now)))
            status.retryAfter = max(1, known.refusal.retryAt.millisecondsRoundedUp(since: now))
            status.isShadow = domain.isShadow
            return DescriptorPlan.Item(status: status)
        }
        var status = DescriptorStatus(isOverLimit: false, bound: bound, rule: rule)
        status.isShadow = isShadow || domain.isShadow
        return DescriptorPlan.Item(
            status: status,
            charge: .init(counter: ExactText(counter), limit: limit, isAligned: isAligned, isShadow: isShadow, cost: ask.cost))
    }

    /// In how many milliseconds its counters have lapsed: doublings of its window, for askers bring limits of all sizes.
    private static func span(of limit: LimitDefinition) -> Int64 {
        var span = limit.windowMilliseconds
        while span < limit.memoryMilliseconds { span *= 2 }
        return span
    }

    private static func counterID(_ counter: DescriptorBatch.Counter) -> RefusalMemory.CounterID {
        counterID(counter.name, counter.limit, isAligned: counter.isAligned)
    }

    /// With all that a limit is: what was known of another one, which a reload has replaced, says nothing of this one.
    private static func counterID(_ counter: String, _ limit: LimitDefinition, isAligned: Bool) -> RefusalMemory.CounterID {
        let algorithm = isAligned ? "aligned" : limit.algorithm.name.rawValue
        return RefusalMemory.CounterID(
            definition: Int(limit.limit), subject: "\(counter):\(limit.name):\(algorithm):\(limit.capacity)")
    }

    /// A rule that another one of the request replaces does not hold. In whose place the asker's own limit is replaces none, and is not
    /// replaced.
    private func dropReplaced(_ plan: inout DescriptorPlan, of asks: [DescriptorAsk]) {
        guard plan.items.contains(where: { $0.status.rule?.rule.replaces.isEmpty == false }) else { return }
        let rules = zip(asks, plan.items).map { ask, item in ask.override == nil ? item.status.rule?.rule : nil }
        let replaced = Set(rules.lazy.compactMap(\.self).flatMap(\.replaces))
        for (place, rule) in rules.enumerated() {
            guard let name = rule?.name, replaced.contains(name) else { continue }
            plan.items[place] = DescriptorPlan.Item(
                status: .init(isOverLimit: false, bound: .none, rule: plan.items[place].status.rule))
        }
    }

    private func answer(_ statuses: [DescriptorStatus], cause: DescriptorAnswer.Cause = .limit) -> DescriptorAnswer {
        DescriptorAnswer(
            isOverLimit: !domain.isShadow && statuses.contains(where: \.isOverLimit), statuses: statuses, cause: cause)
    }

    // MARK: Batches

    /// The requests to be judged next, oldest first; `nil` unless `mayFlush`, or when there is nothing to ask.
    package mutating func nextBatch() -> DescriptorBatch? {
        guard mayFlush, let batch = batchOfArrivals(until: nil) else { return nil }
        inFlight.append(batch)
        return batch
    }

    /// The first of those who are not asked about yet, as many as fit together.
    /// - Parameter end: only those who came until then.
    private mutating func batchOfArrivals(until end: Instant?) -> DescriptorBatch? {
        var batch = DescriptorBatch(isIndependent: domain.isIndependent, countsRefused: domain.countsRefused)
        let taken =
            arrived.firstIndex { request in
                if let end, request.at > end { return true }
                return !batch.append(request)
            } ?? arrived.count
        guard taken > 0 else { return nil }
        if taken == arrived.count { arrived.removeAll(keepingCapacity: true) } else { arrived.removeFirst(taken) }
        batchCount += 1
        batch.number = batchCount
        return batch
    }

    /// When the oldest request came that has no answer; `nil`: there is none.
    package var oldest: Instant? { inFlight.first { !$0.isOverdue }?.requests.first?.at ?? arrived.first?.at }

    /// Requests that came until `end` and have no answer: whoever asked cannot wait. Those that are under way stay so, that Redis is not
    /// asked for more than it answers; what it says of them comes too late.
    package mutating func removeOverdue(until end: Instant) -> [DescriptorBatch] {
        var overdue: [DescriptorBatch] = []
        for place in inFlight.indices where !inFlight[place].isOverdue {
            guard let first = inFlight[place].requests.first, first.at <= end else { continue }
            inFlight[place].isOverdue = true
            overdue.append(inFlight[place])
        }
        while let batch = batchOfArrivals(until: end) { overdue.append(batch) }
        return overdue
    }

    /// A batch under way is so no more. `false`: its requests have been answered.
    package mutating func end(_ batch: DescriptorBatch) -> Bool {
        guard let place = inFlight.firstIndex(where: { $0.number == batch.number }) else { return false }
        return !inFlight.remove(at: place).isOverdue
    }

    /// Redis has been away: what was refused may now be granted.
    package mutating func forgetRefusals() { refusals.forgetAll() }

    /// The verdict on a batch: an answer for each of its requests, in order.
    /// - Parameters:
    ///   - cause: why this verdict refuses.
    ///   - sentAt: before the batch was sent.
    package mutating func settle(
        _ verdict: DescriptorVerdict, of batch: DescriptorBatch, cause: DescriptorAnswer.Cause = .limit, sentAt: Instant,
        now: Instant, into settlements: inout [Settlement]
    ) {
        var used = verdict.counters.map(\.count)
        var place = 0
        for run in batch.runs {
            let fits = run.charges.map { verdict.fits.isEmpty ? run.count : verdict.fits[$0].count }
            var most = run.count
            if !batch.isIndependent {
                for (charge, fit) in zip(run.charges, fits) where !batch.counters[batch.charges[charge].counter].isShadow {
                    most = min(most, fit)
                }
            }
            for number in 0..<run.count {
                let request = batch.requests[place]
                place += 1
                settlements.append(
                    Settlement(
                        id: request.id,
                        answer: judged(
                            request, number: number, of: run, fits, most: most, batch, verdict, cause, &used)))
            }
        }
        remember(verdict, batch, used, sentAt: sentAt, now: now)
    }

    /// What becomes of one request of a run; counts it as the script did.
    private func judged(
        _ request: DescriptorBatch.Request, number: Int, of run: DescriptorBatch.Run, _ fits: [Int], most: Int,
        _ batch: DescriptorBatch, _ verdict: DescriptorVerdict, _ cause: DescriptorAnswer.Cause, _ used: inout [Int64]
    ) -> DescriptorAnswer {
        func count(_ charge: DescriptorBatch.Charge, _ fit: Int) {
            let isOnItsOwn = batch.isIndependent || batch.counters[charge.counter].isShadow
            guard batch.countsRefused || number < (isOnItsOwn ? min(fit, most) : most) else { return }
            let (sum, overflow) = used[charge.counter].addingReportingOverflow(charge.cost)
            used[charge.counter] = overflow ? .max : max(0, sum)
        }
        if !batch.isIndependent { for (charge, fit) in zip(batch.charges[run.charges], fits) { count(charge, fit) } }
        var statuses = request.plan.items.map(\.status)
        for (place, charge) in zip(statuses.indices, run.chargeOfItem) {
            guard let charge else { continue }
            let counter = batch.charges[charge].counter
            let fit = fits[charge - run.charges.lowerBound]
            let isShadow = batch.counters[counter].isShadow
            // A charge for each descriptor: a repetition of one finds less.
            if batch.isIndependent { count(batch.charges[charge], fit) }
            // Of those that a request needs together, the one is over that had room for none of the rest.
            let isOver = number >= fit && (batch.isIndependent || isShadow || fit == most)
            statuses[place].remaining = max(0, verdict.counters[counter].capacity - used[counter])
            statuses[place].resetAfter = max(used[counter] > 0 ? 1 : 0, verdict.counters[counter].resetAfter)
            if isOver, !verdict.fits.isEmpty {
                let wait = verdict.fits[charge].retryAfterMicroseconds
                statuses[place].retryAfter = max(1, (wait + 999) / 1000)
            }
            statuses[place].isOverLimit = isOver && !isShadow
            statuses[place].isShadowRefusal = isOver && isShadow
        }
        // What was known to be refused is, whoever decides about the rest.
        let isKnown = cause != .limit && request.plan.items.contains { $0.status.isOverLimit }
        return answer(statuses, cause: isKnown ? .limit : cause)
    }

    /// What was refused need not be asked about again for as long as that is certain; what was given back may change it.
    private mutating func remember(
        _ verdict: DescriptorVerdict, _ batch: DescriptorBatch, _ used: [Int64], sentAt: Instant, now: Instant
    ) {
        // What this sidecar decided alone is not what Redis would.
        guard !verdict.fits.isEmpty, verdict.timeMicroseconds > 0 else { return }
        for run in batch.runs {
            for place in run.charges {
                let charge = batch.charges[place]
                let counter = batch.counters[charge.counter]
                let id = Self.counterID(counter)
                let fit = verdict.fits[place]
                guard charge.cost > 0 else {
                    if charge.cost < 0 { refusals.forget(id) }
                    continue
                }
                let judged = verdict.counters[charge.counter]
                // One that did not fit into what another counter left is not refused by this one.
                let isFull = judged.capacity - used[charge.counter] < charge.cost
                guard fit.count < run.count, isFull, !counter.isShadow else { continue }
                let retryAt = now.advanced(byMicroseconds: fit.retryAfterMicroseconds)
                let holdsForMore = counter.limit.algorithm == .fixed
                // Redis tells the end of a fixed window in whole milliseconds, and the key is gone in the one after it.
                let until = sentAt.advanced(byMicroseconds: fit.retryAfterMicroseconds - (holdsForMore ? 1000 : 0))
                refusals.remember(
                    RefusalMemory.Refusal(
                        cost: charge.cost, holdsForMore: holdsForMore, limit: counter.limit.limit,
                        remaining: max(0, judged.capacity - used[charge.counter]),
                        until: min(until, now.advanced(byMilliseconds: RefusalMemory.relianceMilliseconds)), retryAt: retryAt,
                        wholeAt: now.advanced(byMilliseconds: judged.resetAfter), releaseAt: retryAt),
                    of: id, isAwaited: false, now: now)
            }
        }
    }
}
