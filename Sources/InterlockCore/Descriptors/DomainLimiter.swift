internal import DequeModule

/// The limits of one domain in one sidecar. Groups requests into batches and remembers refusals. No request waits for a
/// limit: its client expects the decision within milliseconds.
///
/// Usually one batch is in flight. A second batch may follow it if the second is large. The caller calls `nextBatch` at
/// the end of its tick, has the script evaluate the batch, and passes the verdict to `apply`.
///
/// The limiter is noncopyable, because every request uses it and a copy would be expensive.
package struct DomainLimiter: ~Copyable, Sendable {
    /// The result of admitting a request.
    package enum Admission: Sendable {
        /// The request is decided without Redis.
        case decided(RequestDecision)
        /// The request is part of the next batch.
        case queued
    }

    /// The decision about one request, and the request's ID.
    package struct RequestResolution: Sendable {
        package var id: Int
        package var decision: RequestDecision
    }

    private static let maximumInFlight = 2
    private static let minimumRequestsOfSecondBatch = 64

    package let domain: RateLimitDomain
    package let index: DescriptorIndex
    /// The known counters, by their maximum lifetime in milliseconds, so that a counter of one second is not remembered
    /// for a month.
    private var registries: [Int64: SubjectRegistry] = [:]
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
        registries.reduce(0) { $0 + $1.value.count(windowMilliseconds: $1.key, now: now) }
    }

    package var hasArrivals: Bool { !arrived.isEmpty }
    /// Whether a batch may be sent now.
    package var mayFlush: Bool {
        inFlight.isEmpty
            || (inFlight.count < Self.maximumInFlight && arrived.count >= Self.minimumRequestsOfSecondBatch)
    }

    /// Adopts changed rules. Forgets refusals and known counters. Admitted requests keep the rules under which they
    /// arrived.
    package mutating func redefine(_ domain: RateLimitDomain) {
        var next = DomainLimiter(domain: domain)
        next.arrived = arrived
        next.inFlight = inFlight
        next.batchCount = batchCount
        self = next
    }

    // MARK: Requests

    /// Admits a request. O(entries of the request's descriptors).
    package mutating func admit(_ requested: [RequestedDescriptor], id: Int, now: Instant) -> Admission {
        var plan = DescriptorPlan(items: requested.map { item(for: $0, now: now) })
        dropReplaced(&plan, of: requested)
        let isRefused = plan.items.contains { $0.status.isOverLimit }
        // A request that is known to be refused takes nothing from its other limits.
        if isRefused, !domain.isIndependent { for index in plan.items.indices { plan.items[index].charge = nil } }
        guard plan.hasCharges else { return .decided(decision(plan.items.map(\.status))) }
        arrived.append(DescriptorBatch.Request(id: id, plan: plan, at: now))
        return .queued
    }

    private mutating func item(for descriptor: RequestedDescriptor, now: Instant) -> DescriptorPlan.Item {
        let match = index.match(descriptor.entries)
        if let override = descriptor.override { return item(for: descriptor, override: override, match, now: now) }
        guard let match else { return DescriptorPlan.Item(status: .init(isOverLimit: false, bound: .none, rule: nil)) }
        let rule = match.rule.rule
        switch rule.limit {
        case nil, .unlimited:
            return DescriptorPlan.Item(status: .init(isOverLimit: false, bound: .unlimited, rule: match.rule))
        case .blocked(let window):
            return blocked(rule: match.rule, isShadow: rule.isShadow, window: window, cost: descriptor.cost)
        case .rate(let limit, let isAligned):
            return item(
                for: descriptor, counter: match.counter, limit, isAligned, rule: match.rule, isShadow: rule.isShadow,
                now: now)
        }
    }

    /// Returns the item of a descriptor with its caller's own limit. That limit counts by the algorithm of the rule's
    /// limit, or by the domain's default if there is no such rule.
    private mutating func item(
        for descriptor: RequestedDescriptor, override: RequestedDescriptor.Override, _ match: DescriptorIndex.Match?,
        now: Instant
    ) -> DescriptorPlan.Item {
        guard override.limit > 0 else {
            return blocked(rule: match?.rule, isShadow: false, window: override.window, cost: descriptor.cost)
        }
        var limit = LimitDefinition(name: override.name, limit: override.limit, window: override.window)
        var isAligned = domain.countsRefused
        if let match, case .rate(let ruleLimit, let isRuleAligned) = match.rule.rule.limit {
            limit.algorithm = ruleLimit.algorithm
            isAligned = isRuleAligned
        }
        if limit.algorithmViolation != nil { limit.algorithm = .fixed }
        var counter = match?.counter ?? ""
        if counter.isEmpty {
            var name = CounterName()
            for entry in descriptor.entries { name.append(key: entry.key, value: entry.value) }
            counter = name.text
        }
        return item(for: descriptor, counter: counter, limit, isAligned, rule: match?.rule, isShadow: false, now: now)
    }

    /// Returns the item of a limit of 0. The reset time is at least a day, however short the window is.
    private func blocked(
        rule: DescriptorIndex.Rule?, isShadow: Bool, window: Duration, cost: Int64
    ) -> DescriptorPlan.Item {
        var status = DescriptorStatus(
            isOverLimit: cost > 0 && !isShadow, bound: .limited(limit: 0, window: window), rule: rule,
            resetAfterMilliseconds: max(window, DescriptorLimit.blockedWindow).wholeMilliseconds)
        status.isShadowRefusal = cost > 0 && isShadow
        status.isShadow = isShadow || domain.isShadow
        return DescriptorPlan.Item(status: status)
    }

    private mutating func item(
        for descriptor: RequestedDescriptor, counter: String, _ limit: LimitDefinition, _ isAligned: Bool,
        rule: DescriptorIndex.Rule?, isShadow: Bool, now: Instant
    ) -> DescriptorPlan.Item {
        var counter = counter
        let lifetimeMilliseconds = Self.lifetimeMilliseconds(of: limit)
        let registeredName = descriptor.override == nil ? counter : counter + ":" + limit.name
        let capacity = domain.maximumCounters
        if !registries[lifetimeMilliseconds, default: SubjectRegistry(capacity: capacity)]
            .register(registeredName, windowMilliseconds: lifetimeMilliseconds, now: now)
        {
            counter = SubjectRegistry.overflow + (rule.map { "." + $0.path } ?? "")
        }
        let bound = DescriptorStatus.Bound.limited(limit: limit.limit, window: limit.window)
        let remembered =
            refusals.isEmpty
            ? nil
            : refusals.refusal(
                of: Self.counterID(counter, limit, isAligned: isAligned), definition: limit, cost: descriptor.cost,
                now: now)
        if let remembered, descriptor.cost > 0, !isShadow {
            var status = DescriptorStatus(
                isOverLimit: true, bound: bound, rule: rule, remaining: remembered.refusal.remaining,
                resetAfterMilliseconds: max(1, remembered.refusal.resetAt.millisecondsRoundedUp(since: now)))
            status.retryAfterMilliseconds = max(1, remembered.refusal.retryAt.millisecondsRoundedUp(since: now))
            status.isShadow = domain.isShadow
            return DescriptorPlan.Item(status: status)
        }
        var status = DescriptorStatus(isOverLimit: false, bound: bound, rule: rule)
        status.isShadow = isShadow || domain.isShadow
        var limit = limit
        limit.isShadow = isShadow
        return DescriptorPlan.Item(
            status: status,
            charge: .init(counter: ExactText(counter), limit: limit, isAligned: isAligned, cost: descriptor.cost))
    }

    /// Returns the maximum lifetime of the limit's counters, in milliseconds. It is the window times a power of two,
    /// because callers supply limits of all sizes, and each distinct lifetime has its own `SubjectRegistry`.
    private static func lifetimeMilliseconds(of limit: LimitDefinition) -> Int64 {
        var milliseconds = limit.windowMilliseconds
        while milliseconds < limit.retentionMilliseconds { milliseconds *= 2 }
        return milliseconds
    }

    /// Returns an ID made of all properties of the limit, so that after a reload a refusal by the old limit does not
    /// apply to the new one.
    private static func counterID(
        _ counter: String, _ limit: LimitDefinition, isAligned: Bool
    ) -> RefusalMemory.CounterID {
        let algorithm = isAligned ? "aligned" : limit.algorithm.name.rawValue
        return RefusalMemory.CounterID(
            definitionIndex: Int(limit.limit), subject: "\(counter):\(limit.name):\(algorithm):\(limit.capacity)")
    }

    /// Drops the rules that another rule of the request replaces. Does not apply to descriptors with their caller's own
    /// limit, whose rules neither replace others nor are replaced.
    private func dropReplaced(_ plan: inout DescriptorPlan, of requested: [RequestedDescriptor]) {
        guard plan.items.contains(where: { $0.status.rule?.rule.replaces.isEmpty == false }) else { return }
        let rules = zip(requested, plan.items).map { descriptor, item in
            descriptor.override == nil ? item.status.rule?.rule : nil
        }
        let replacedNames = Set(rules.lazy.compactMap(\.self).flatMap(\.replaces))
        for (index, rule) in rules.enumerated() {
            guard let name = rule?.name, replacedNames.contains(name) else { continue }
            plan.items[index] = DescriptorPlan.Item(
                status: .init(isOverLimit: false, bound: .none, rule: plan.items[index].status.rule))
        }
    }

    private func decision(_ statuses: [DescriptorStatus], cause: RequestDecision.Cause = .limit) -> RequestDecision {
        RequestDecision(
            isOverLimit: !domain.isShadow && statuses.contains(where: \.isOverLimit), statuses: statuses, cause: cause)
    }

    // MARK: Batches

    /// Returns the requests to evaluate next, oldest first; `nil` unless `mayFlush`, or if no request has arrived.
    package mutating func nextBatch() -> DescriptorBatch? {
        guard mayFlush, let batch = batchOfArrivals(until: nil) else { return nil }
        inFlight.append(batch)
        return batch
    }

    /// Removes and returns the oldest unsent requests, as many as fit into one batch.
    /// - Parameter end: the latest arrival to include; `nil` for all.
    private mutating func batchOfArrivals(until end: Instant?) -> DescriptorBatch? {
        let mode: LimitBatch.Mode =
            domain.countsRefused ? .unconditional : domain.isIndependent ? .independent : .allOrNone
        var batch = DescriptorBatch(mode: mode)
        let takenCount =
            arrived.firstIndex { request in
                if let end, request.at > end { return true }
                return !batch.append(request)
            } ?? arrived.count
        guard takenCount > 0 else { return nil }
        if takenCount == arrived.count {
            arrived.removeAll(keepingCapacity: true)
        } else {
            arrived.removeFirst(takenCount)
        }
        batchCount += 1
        batch.number = batchCount
        return batch
    }

    /// The arrival time of the oldest unanswered request; `nil` if all are answered.
    package var oldest: Instant? { inFlight.first { !$0.isOverdue }?.requests.first?.at ?? arrived.first?.at }

    /// Returns the unanswered requests that arrived by `end`, because their clients cannot wait longer. Batches in
    /// flight stay in flight, so that Redis gets no more work than it can handle. Their verdicts are then ignored.
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

    /// Ends a batch in flight. Returns `false` if the batch is not in flight or its requests have already been
    /// answered.
    package mutating func end(_ batch: DescriptorBatch) -> Bool {
        guard let index = inFlight.firstIndex(where: { $0.number == batch.number }) else { return false }
        return !inFlight.remove(at: index).isOverdue
    }

    /// Forgets refusals after Redis was unreachable, because Redis may now grant what it refused.
    package mutating func forgetRefusals() { refusals.forgetAll() }

    /// Applies the verdict on a batch, and appends a resolution for each of its requests, in order.
    /// - Parameters:
    ///   - cause: the cause of the verdict's refusals.
    ///   - sentAt: a time before the batch was sent.
    package mutating func apply(
        _ verdict: BatchVerdict, of batch: DescriptorBatch, cause: RequestDecision.Cause = .limit, sentAt: Instant,
        now: Instant, into resolutions: inout [RequestResolution]
    ) {
        var used = verdict.counters.map(\.count)
        var requestIndex = 0
        for (run, chargeOfItem) in zip(batch.limits.runs, batch.chargeOfItem) {
            var evaluation = RunEvaluation(run, chargeOfItem, of: batch.limits, by: verdict)
            for _ in 0..<run.count {
                let request = batch.requests[requestIndex]
                requestIndex += 1
                var statuses = request.plan.items.map(\.status)
                evaluation.applyNext(to: &statuses, batch.limits, verdict, &used)
                // A request that a remembered refusal already refused keeps that cause.
                let isRefusedByLimit = cause != .limit && request.plan.items.contains { $0.status.isOverLimit }
                resolutions.append(
                    RequestResolution(
                        id: request.id, decision: decision(statuses, cause: isRefusedByLimit ? .limit : cause)))
            }
        }
        remember(verdict, batch.limits, used, sentAt: sentAt, now: now)
    }

    /// The decisions about the requests of one run, in order. Counts each request as the script did.
    private struct RunEvaluation {
        let charges: Range<Int>
        let chargeOfItem: [Int?]
        /// For each charge, the number of requests for which it found capacity.
        let fits: [Int]
        /// The number of granted requests in mode `allOrNone`; otherwise the number of requests.
        let grantedCount: Int
        /// The number of requests whose statuses have been set.
        var evaluatedCount = 0

        init(_ run: LimitBatch.Run, _ chargeOfItem: [Int?], of batch: LimitBatch, by verdict: BatchVerdict) {
            charges = run.charges
            self.chargeOfItem = chargeOfItem
            fits = run.charges.map { verdict.fits.isEmpty ? run.count : verdict.fits[$0].count }
            grantedCount = batch.mode == .allOrNone ? verdict.decision(on: run, of: batch).grantedCount : run.count
        }

        /// Counts the next request at the charge with this index, if the script counted it.
        private func count(_ index: Int, _ batch: LimitBatch, _ used: inout [Int64]) {
            let charge = batch.charges[index]
            let fit = fits[index - charges.lowerBound]
            let isIndependent = batch.mode != .allOrNone || batch.isShadow(charge.counterIndex)
            guard
                batch.mode == .unconditional || evaluatedCount < (isIndependent ? min(fit, grantedCount) : grantedCount)
            else {
                return
            }
            let (sum, overflow) = used[charge.counterIndex].addingReportingOverflow(charge.cost)
            used[charge.counterIndex] = overflow ? .max : max(0, sum)
        }

        /// Sets the statuses of the next request.
        mutating func applyNext(
            to statuses: inout [DescriptorStatus], _ batch: LimitBatch, _ verdict: BatchVerdict, _ used: inout [Int64]
        ) {
            if batch.mode == .allOrNone { for index in charges { count(index, batch, &used) } }
            for (item, index) in zip(statuses.indices, chargeOfItem) {
                guard let index else { continue }
                let counterIndex = batch.charges[index].counterIndex
                let fit = fits[index - charges.lowerBound]
                let isShadow = batch.isShadow(counterIndex)
                // Each descriptor has its own charge, so the second one with the same counter finds less capacity.
                if batch.mode != .allOrNone { count(index, batch, &used) }
                // If a request takes from all of its counters or takes nothing, only the fullest one refuses it.
                let isOverLimit = evaluatedCount >= fit && (batch.mode != .allOrNone || isShadow || fit == grantedCount)
                statuses[item].remaining = max(0, verdict.counters[counterIndex].capacity - used[counterIndex])
                statuses[item].resetAfterMilliseconds = max(
                    used[counterIndex] > 0 ? 1 : 0, verdict.counters[counterIndex].resetAfterMilliseconds)
                if isOverLimit, !verdict.fits.isEmpty {
                    statuses[item].retryAfterMilliseconds = max(
                        1, (verdict.fits[index].retryAfterMicroseconds + 999) / 1000)
                }
                statuses[item].isOverLimit = isOverLimit && !isShadow
                statuses[item].isShadowRefusal = isOverLimit && isShadow
            }
            evaluatedCount += 1
        }
    }

    /// Remembers the refusals of a verdict, and forgets those of counters that got a refund.
    private mutating func remember(
        _ verdict: BatchVerdict, _ batch: LimitBatch, _ used: [Int64], sentAt: Instant, now: Instant
    ) {
        // A local verdict says nothing about the counters in Redis.
        guard !verdict.fits.isEmpty, verdict.timeMicroseconds > 0 else { return }
        for run in batch.runs {
            for index in run.charges {
                let charge = batch.charges[index]
                let counter = batch.counters[charge.counterIndex]
                let limit = batch.definitions[counter.definitionIndex]
                let id = Self.counterID(counter.name ?? "", limit, isAligned: counter.isAligned)
                let fit = verdict.fits[index]
                guard charge.cost > 0 else {
                    if charge.cost < 0 { refusals.forget(id) }
                    continue
                }
                let counterState = verdict.counters[charge.counterIndex]
                // If the counter has capacity left, another counter of the request refused.
                let isFull = counterState.capacity - used[charge.counterIndex] < charge.cost
                guard fit.count < run.count, isFull, !limit.isShadow else { continue }
                refusals.remember(
                    RefusalMemory.Refusal(
                        cost: charge.cost, of: limit, limit: limit.limit,
                        remaining: max(0, counterState.capacity - used[charge.counterIndex]),
                        retryAfterMicroseconds: fit.retryAfterMicroseconds,
                        resetAfterMilliseconds: counterState.resetAfterMilliseconds,
                        sentAt: sentAt, now: now),
                    of: id, isAwaited: false, now: now)
            }
        }
    }
}
