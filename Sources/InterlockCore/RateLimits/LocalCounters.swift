/// The counters that decide while Redis is unreachable, by this sidecar's quota of each limit and the same rules as the
/// script.
package struct LocalCounters: Sendable {
    /// The identity of a counter. It contains the limit's name, so usage survives a change of the limit.
    private struct CounterID: Hashable {
        var limit: String
        var subject: ExactText?
    }

    /// The default number of per-subject counters.
    package static let capacity = 4096
    /// The retry time given to subjects beyond the capacity, in milliseconds.
    private static let retryMilliseconds: Int64 = 1000
    /// The minimum interval between two sweeps for lapsed counters, in milliseconds.
    private static let minimumSweepIntervalMilliseconds: Int64 = 100

    private var quotas: [CounterID: LocalQuota] = [:]
    private var subjectCount = 0
    /// The maximum number of per-subject counters. Further subjects are refused until a sweep frees one.
    private let capacity: Int
    private var nextSweepAt = Instant(nanoseconds: .min)
    /// The time by which all grants have lapsed.
    private var countsUntil = Instant(nanoseconds: .min)

    package init(capacity: Int = Self.capacity) {
        self.capacity = capacity
    }

    /// Returns whether all grants have lapsed. Until then the counters outlive the outage: if Redis fails again, no
    /// quota must be granted twice in a window.
    package func isExpired(at now: Instant) -> Bool { countsUntil <= now }

    /// Evaluates a batch as `take.lua` does. Ignores refunds, since their counters are in Redis.
    /// - Parameter sidecars: the number of sidecars among which the limits are divided.
    package mutating func evaluate(_ batch: LimitBatch, sidecars: Int = 1, now: Instant) -> BatchVerdict {
        var evaluation = self.evaluation(of: batch, sidecars: sidecars, now: now)
        // The wait, in microseconds, at each counter that a waiting request found full. No later request may overtake
        // that request.
        var blockedMicroseconds = batch.counters.map { _ in Int64(0) }
        var fits: [BatchVerdict.Fit] = []
        fits.reserveCapacity(batch.charges.count)
        for run in batch.runs {
            let charges = batch.charges[run.charges]
            var granted = run.count
            for charge in charges {
                let fit = blockedMicroseconds[charge.counterIndex] > 0 ? 0 : evaluation.fit(charge, of: run.count)
                fits.append(BatchVerdict.Fit(count: fit))
                if batch.mode != .allOrNone {
                    evaluation.take(charge.cost * Int64(fit), from: charge.counterIndex, now: now)
                } else if !batch.isShadow(charge.counterIndex) {
                    granted = min(granted, fit)
                }
            }
            for (index, charge) in zip(run.charges, charges) {
                let (counter, fit) = (charge.counterIndex, fits[index].count)
                if batch.mode == .allOrNone {
                    evaluation.take(charge.cost * Int64(min(fit, granted)), from: counter, now: now)
                }
                if batch.isShadow(counter) { evaluation.counters[counter].excess += Int64(max(0, granted - fit)) }
                guard fit < run.count else { continue }
                let waitMicroseconds = max(
                    evaluation.waitMicroseconds(for: max(1, charge.cost), from: counter, now: now),
                    blockedMicroseconds[counter])
                fits[index].retryAfterMicroseconds = waitMicroseconds
                if run.waits, fit == granted, !batch.isShadow(counter) {
                    blockedMicroseconds[counter] = waitMicroseconds
                }
            }
        }
        return BatchVerdict(timeMicroseconds: 0, counters: end(evaluation, now: now), fits: fits)
    }

    /// The counters of a batch during its evaluation.
    private struct Evaluation {
        var ids: [CounterID]
        /// The quota of each counter, which is stored only if it grants something; `nil` if there is no capacity for
        /// another subject.
        var quotas: [LocalQuota?]
        var counters: [BatchVerdict.Counter]
        private(set) var available: [Int64]

        init(ids: [CounterID], quotas: [LocalQuota?], now: Instant) {
            self.ids = ids
            self.quotas = quotas
            counters = quotas.map { quota in
                // A subject without a counter has no capacity.
                guard var quota else {
                    return BatchVerdict.Counter(count: 0, capacity: 0, resetAfterMilliseconds: LocalCounters.retryMilliseconds)
                }
                return BatchVerdict.Counter(count: quota.taken(now: now), capacity: quota.capacity, resetAfterMilliseconds: 0)
            }
            available = counters.map { $0.capacity - $0.count }
        }

        /// Returns how many of `count` requests fit into the counter of `charge`.
        func fit(_ charge: LimitBatch.Charge, of count: Int) -> Int {
            charge.cost > 0 ? Int(max(0, min(Int64(count), available[charge.counterIndex] / charge.cost))) : count
        }

        mutating func take(_ cost: Int64, from index: Int, now: Instant) {
            guard cost > 0 else { return }
            available[index] -= cost
            quotas[index]?.take(cost, now: now)
        }

        /// Returns the microseconds until `cost` fits.
        mutating func waitMicroseconds(for cost: Int64, from index: Int, now: Instant) -> Int64 {
            max(1, quotas[index]?.retryAfterMicroseconds(cost: cost, now: now) ?? counters[index].resetAfterMilliseconds * 1000)
        }
    }

    private mutating func evaluation(of batch: LimitBatch, sidecars: Int, now: Instant) -> Evaluation {
        var (ids, quotas): ([CounterID], [LocalQuota?]) = ([], [])
        for counter in batch.counters {
            let limit = batch.definitions[counter.definitionIndex]
            let id = CounterID(limit: limit.name, subject: counter.name.map(ExactText.init))
            ids.append(id)
            quotas.append(quota(of: limit, id, sidecars: sidecars, now: now))
        }
        return Evaluation(ids: ids, quotas: quotas, now: now)
    }

    /// Ends an evaluation, and stores the quotas that granted something.
    /// - Returns: the counters for the verdict.
    private mutating func end(_ evaluation: Evaluation, now: Instant) -> [BatchVerdict.Counter] {
        var counters = evaluation.counters
        for index in evaluation.quotas.indices {
            guard var quota = evaluation.quotas[index] else { continue }
            counters[index].resetAfterMilliseconds = quota.resetAfterMilliseconds(now: now)
            if evaluation.available[index] < counters[index].capacity - counters[index].count {
                store(quota, as: evaluation.ids[index], now: now)
            }
        }
        return counters
    }

    /// Returns a counter's quota of the current limit in the current fleet; `nil` if there is no capacity for another
    /// subject.
    private mutating func quota(
        of definition: LimitDefinition, _ id: CounterID, sidecars: Int, now: Instant
    ) -> LocalQuota? {
        if let quota = quotas[id] { return quota.redefined(by: definition, sidecars: sidecars, now: now) }
        guard id.subject == nil || subjectCount < capacity || sweep(now: now) else { return nil }
        return LocalQuota(of: definition, sidecars: sidecars)
    }

    private mutating func store(_ quota: LocalQuota, as id: CounterID, now: Instant) {
        if quotas.updateValue(quota, forKey: id) == nil, id.subject != nil { subjectCount += 1 }
        countsUntil = max(countsUntil, now.advanced(byMilliseconds: quota.retentionMilliseconds(now: now)))
    }

    /// Drops lapsed counters.
    /// - Returns: whether there is capacity for another subject.
    private mutating func sweep(now: Instant) -> Bool {
        guard nextSweepAt <= now else { return false }
        nextSweepAt = now.advanced(byMilliseconds: Self.minimumSweepIntervalMilliseconds)
        quotas = quotas.filter { entry in
            var quota = entry.value
            return quota.taken(now: now) > 0
        }
        subjectCount = quotas.keys.count { $0.subject != nil }
        return subjectCount < capacity
    }
}
