internal import DequeModule

/// The limits of one domain in one sidecar. Groups requests into batches and remembers refusals. No request waits for a
/// limit: its client expects the decision within milliseconds.
///
/// Usually one batch is in flight; a second one may follow if it is large. The caller calls `nextBatch` at the end of
/// its tick, has the script evaluate the batch, and passes the verdict to `apply`.
package struct DomainLimiter: Sendable {
    /// The result of admitting a request.
    package enum Admission: Sendable {
        /// Answered without Redis.
        case answered(RequestDecision)
        /// The request is part of the next batch.
        case queued
    }

    /// The decision about one request, and the request's ID.
    package struct RequestResolution: Sendable {
        package var id: Int
        package var answer: RequestDecision
    }

    private static let maximumInFlight = 2
    private static let minimumSecondBatch = 64

    package let domain: RateLimitDomain
    package let index: DescriptorIndex
    /// The known counters, by their maximum lifetime in milliseconds, so that a counter of one second is not remembered
    /// for a month.
    private var subjects: [Int64: SubjectRegistry] = [:]
    private var refusals = RefusalMemory()
    private var arrived: Deque<DescriptorBatch.Request> = []
    private var inFlight: [DescriptorBatch] = []
    private var batchCount: UInt64 = 0

    package init(domain: RateLimitDomain) {
        self.domain = domain
        index = DescriptorIndex(domain.rules)
    }

    /// Returns the number of descriptors with their own counters.
    package func countersKnown(now: Instant) -> Int {
        subjects.reduce(0) { $0 + $1.value.count(windowMilliseconds: $1.key, now: now) }
    }

    package var hasArrivals: Bool { !arrived.isEmpty }
    /// Whether a batch may be sent now.
    package var mayFlush: Bool {
        inFlight.isEmpty || (inFlight.count < Self.maximumInFlight && arrived.count >= Self.minimumSecondBatch)
    }

    /// Returns the limiter for changed rules. Refusals and known counters are forgotten; admitted requests keep the
    /// rules they arrived under.
    package func redefined(_ domain: RateLimitDomain) -> DomainLimiter {
        var next = DomainLimiter(domain: domain)
        next.arrived = arrived
        next.inFlight = inFlight
        next.batchCount = batchCount
        return next
    }

    // MARK: Requests

    /// Admits a request. O(entries of its descriptors).
    package mutating func admit(_ requested: [RequestedDescriptor], id: Int, now: Instant) -> Admission {
        var plan = DescriptorPlan(items: requested.map { item(for: $0, now: now) })
        dropReplaced(&plan, of: requested)
        let isRefused = plan.items.contains { $0.status.isOverLimit }
        // A request that is known to be refused takes nothing from its other limits.
        if isRefused, !domain.isIndependent { for index in plan.items.indices { plan.items[index].charge = nil } }
        guard plan.hasCharges else { return .answered(answer(plan.items.map(\.status))) }
        arrived.append(DescriptorBatch.Request(id: id, plan: plan, at: now))
        return .queued
    }

    private mutating func item(for ask: RequestedDescriptor, now: Instant) -> DescriptorPlan.Item {
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

    /// Applies the caller's own limit. It counts by the algorithm of the rule's limit or, without one, by the domain's
    /// default.
    private mutating func item(
        for ask: RequestedDescriptor, override: RequestedDescriptor.Override, _ match: DescriptorIndex.Match?, now: Instant
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

    /// Returns the item of a limit of 0. Its reset time is at least a day, however short the window is.
    private func blocked(rule: DescriptorIndex.Rule?, isShadow: Bool, window: Duration, cost: Int64) -> DescriptorPlan.Item {
        var status = DescriptorStatus(
            isOverLimit: cost > 0 && !isShadow, bound: .limited(limit: 0, window: window), rule: rule,
            resetAfter: max(window, DescriptorLimit.blockedWindow).wholeMilliseconds)
        status.isShadowRefusal = cost > 0 && isShadow
        status.isShadow = isShadow || domain.isShadow
        return DescriptorPlan.Item(status: status)
    }

    private mutating func item(
        for ask: RequestedDescriptor, counter: String, _ limit: LimitDefinition, _ isAligned: Bool, rule: DescriptorIndex.Rule?,
        isShadow: Bool,
        now: Instant
    ) -> DescriptorPlan.Item {
        var counter = counter
        let span = Self.span(of: limit)
        if !subjects[span, default: SubjectRegistry(capacity: domain.maximumCounters)]
            .register(ask.override == nil ? counter : counter + ":" + limit.name, windowMilliseconds: span, now: now)
        {
            counter = SubjectRegistry.overflow + (rule.map { "." + $0.path } ?? "")
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
                resetAfter: max(1, known.refusal.resetAt.millisecondsRoundedUp(since: now)))
            status.retryAfter = max(1, known.refusal.retryAt.millisecondsRoundedUp(since: now))
            status.isShadow = domain.isShadow
            return DescriptorPlan.Item(status: status)
        }
        var status = DescriptorStatus(isOverLimit: false, bound: bound, rule: rule)
        status.isShadow = isShadow || domain.isShadow
        var limit = limit
        limit.isShadow = isShadow
        return DescriptorPlan.Item(
            status: status,
            charge: .init(counter: ExactText(counter), limit: limit, isAligned: isAligned, cost: ask.cost))
    }

    /// Returns a time by which the limit's counters have lapsed, in milliseconds. It is the window times a power of
    /// two, because callers supply limits of all sizes and each distinct time has its own `SubjectRegistry`.
    private static func span(of limit: LimitDefinition) -> Int64 {
        var span = limit.windowMilliseconds
        while span < limit.retentionMilliseconds { span *= 2 }
        return span
    }

    /// Returns an ID made of all properties of the limit. After a reload, a refusal by the old limit does not apply to
    /// the new one.
    private static func counterID(_ counter: String, _ limit: LimitDefinition, isAligned: Bool) -> RefusalMemory.CounterID {
        let algorithm = isAligned ? "aligned" : limit.algorithm.name.rawValue
        return RefusalMemory.CounterID(
            definition: Int(limit.limit), subject: "\(counter):\(limit.name):\(algorithm):\(limit.capacity)")
    }

    /// Drops the rules that another rule of the request replaces. A rule under a caller's own limit neither replaces
    /// another nor is replaced.
    private func dropReplaced(_ plan: inout DescriptorPlan, of requested: [RequestedDescriptor]) {
        guard plan.items.contains(where: { $0.status.rule?.rule.replaces.isEmpty == false }) else { return }
        let rules = zip(requested, plan.items).map { ask, item in ask.override == nil ? item.status.rule?.rule : nil }
        let replaced = Set(rules.lazy.compactMap(\.self).flatMap(\.replaces))
        for (index, rule) in rules.enumerated() {
            guard let name = rule?.name, replaced.contains(name) else { continue }
            plan.items[index] = DescriptorPlan.Item(
                status: .init(isOverLimit: false, bound: .none, rule: plan.items[index].status.rule))
        }
    }

    private func answer(_ statuses: [DescriptorStatus], cause: RequestDecision.Cause = .limit) -> RequestDecision {
        RequestDecision(
            isOverLimit: !domain.isShadow && statuses.contains(where: \.isOverLimit), statuses: statuses, cause: cause)
    }

    // MARK: Batches

    /// Returns the requests to evaluate next, oldest first; `nil` unless `mayFlush`, or if there are none to send.
    package mutating func nextBatch() -> DescriptorBatch? {
        guard mayFlush, let batch = batchOfArrivals(until: nil) else { return nil }
        inFlight.append(batch)
        return batch
    }

    /// Removes and returns the oldest requests that were not sent yet, as many as fit into one batch.
    /// - Parameter end: the latest arrival to include; `nil` for all.
    private mutating func batchOfArrivals(until end: Instant?) -> DescriptorBatch? {
        let mode: LimitBatch.Mode = domain.countsRefused ? .unconditional : domain.isIndependent ? .independent : .allOrNone
        var batch = DescriptorBatch(mode: mode)
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

    /// The arrival time of the oldest unanswered request; `nil` if all are answered.
    package var oldest: Instant? { inFlight.first { !$0.isOverdue }?.requests.first?.at ?? arrived.first?.at }

    /// Returns the unanswered requests that arrived by `end`, because their clients cannot wait longer. Batches in
    /// flight stay in flight, so that Redis gets no more work than it can handle; their verdicts are ignored.
    package mutating func removeOverdue(until end: Instant) -> [DescriptorBatch] {
        var overdue: [DescriptorBatch] = []
        for index in inFlight.indices where !inFlight[index].isOverdue {
            guard let first = inFlight[index].requests.first, first.at <= end else { continue }
            inFlight[index].isOverdue = true
            overdue.append(inFlight[index])
        }
        while let batch = batchOfArrivals(until: end) { overdue.append(batch) }
        return overdue
    }

    /// Ends a batch in flight. Returns `false` if its requests have already been answered.
    package mutating func end(_ batch: DescriptorBatch) -> Bool {
        guard let index = inFlight.firstIndex(where: { $0.number == batch.number }) else { return false }
        return !inFlight.remove(at: index).isOverdue
    }

    /// Forgets refusals after Redis was unreachable: refused requests may now be granted.
    package mutating func forgetRefusals() { refusals.forgetAll() }

    /// Applies the verdict on a batch: appends an answer for each of its requests, in order.
    /// - Parameters:
    ///   - cause: the cause of this verdict's refusals.
    ///   - sentAt: a time before the batch was sent.
    package mutating func apply(
        _ verdict: BatchVerdict, of batch: DescriptorBatch, cause: RequestDecision.Cause = .limit, sentAt: Instant,
        now: Instant, into resolutions: inout [RequestResolution]
    ) {
        var used = verdict.counters.map(\.count)
        var next = 0
        for (run, chargeOfItem) in zip(batch.limits.runs, batch.chargeOfItem) {
            var judged = JudgedRun(run, chargeOfItem, of: batch.limits, by: verdict)
            for _ in 0..<run.count {
                let request = batch.requests[next]
                next += 1
                var statuses = request.plan.items.map(\.status)
                judged.next(&statuses, batch.limits, verdict, &used)
                // A known refusal keeps its cause, whatever decided the rest.
                let isKnown = cause != .limit && request.plan.items.contains { $0.status.isOverLimit }
                resolutions.append(
                    RequestResolution(id: request.id, answer: answer(statuses, cause: isKnown ? .limit : cause)))
            }
        }
        remember(verdict, batch.limits, used, sentAt: sentAt, now: now)
    }

    /// The decisions about the requests of one run, in order. Counts each as the script did.
    private struct JudgedRun {
        let charges: Range<Int>
        let chargeOfItem: [Int?]
        /// The number of requests for which each charge found capacity.
        let fits: [Int]
        /// The number of requests that were granted, in the mode that takes from all counters or from none.
        let granted: Int
        var number = 0

        init(_ run: LimitBatch.Run, _ chargeOfItem: [Int?], of batch: LimitBatch, by verdict: BatchVerdict) {
            charges = run.charges
            self.chargeOfItem = chargeOfItem
            fits = run.charges.map { verdict.fits.isEmpty ? run.count : verdict.fits[$0].count }
            granted = batch.mode == .allOrNone ? verdict.decision(on: run, of: batch).granted : run.count
        }

        private func count(_ index: Int, _ batch: LimitBatch, _ used: inout [Int64]) {
            let charge = batch.charges[index]
            let fit = fits[index - charges.lowerBound]
            let isIndependent = batch.mode != .allOrNone || batch.isShadow(charge.counter)
            guard batch.mode == .unconditional || number < (isIndependent ? min(fit, granted) : granted) else { return }
            let (sum, overflow) = used[charge.counter].addingReportingOverflow(charge.cost)
            used[charge.counter] = overflow ? .max : max(0, sum)
        }

        mutating func next(
            _ statuses: inout [DescriptorStatus], _ batch: LimitBatch, _ verdict: BatchVerdict, _ used: inout [Int64]
        ) {
            if batch.mode == .allOrNone { for index in charges { count(index, batch, &used) } }
            for (item, index) in zip(statuses.indices, chargeOfItem) {
                guard let index else { continue }
                let counter = batch.charges[index].counter
                let fit = fits[index - charges.lowerBound]
                let isShadow = batch.isShadow(counter)
                // Each descriptor has its own charge, so a second one with the same counter finds less capacity.
                if batch.mode != .allOrNone { count(index, batch, &used) }
                // If a request needs all its counters, only the fullest one refuses it.
                let isOver = number >= fit && (batch.mode != .allOrNone || isShadow || fit == granted)
                statuses[item].remaining = max(0, verdict.counters[counter].capacity - used[counter])
                statuses[item].resetAfter = max(used[counter] > 0 ? 1 : 0, verdict.counters[counter].resetAfter)
                if isOver, !verdict.fits.isEmpty {
                    statuses[item].retryAfter = max(1, (verdict.fits[index].retryAfterMicroseconds + 999) / 1000)
                }
                statuses[item].isOverLimit = isOver && !isShadow
                statuses[item].isShadowRefusal = isOver && isShadow
            }
            number += 1
        }
    }

    /// Remembers refusals while they are certain. A refund ends them.
    private mutating func remember(
        _ verdict: BatchVerdict, _ batch: LimitBatch, _ used: [Int64], sentAt: Instant, now: Instant
    ) {
        // A local decision says nothing about Redis's counters.
        guard !verdict.fits.isEmpty, verdict.timeMicroseconds > 0 else { return }
        for run in batch.runs {
            for index in run.charges {
                let charge = batch.charges[index]
                let counter = batch.counters[charge.counter]
                let limit = batch.definitions[counter.definition]
                let id = Self.counterID(counter.name ?? "", limit, isAligned: counter.isAligned)
                let fit = verdict.fits[index]
                guard charge.cost > 0 else {
                    if charge.cost < 0 { refusals.forget(id) }
                    continue
                }
                let judged = verdict.counters[charge.counter]
                // A counter with capacity left did not refuse; another counter of the request did.
                let isFull = judged.capacity - used[charge.counter] < charge.cost
                guard fit.count < run.count, isFull, !limit.isShadow else { continue }
                refusals.remember(
                    RefusalMemory.Refusal(
                        cost: charge.cost, of: limit, limit: limit.limit,
                        remaining: max(0, judged.capacity - used[charge.counter]),
                        retryAfterMicroseconds: fit.retryAfterMicroseconds, resetAfter: judged.resetAfter,
                        sentAt: sentAt, now: now),
                    of: id, isAwaited: false, now: now)
            }
        }
    }
}
