/// Judges batches while Redis is away, by this sidecar's share of each limit, under the same rules as the script.
package struct LocalCounters: Sendable {
    /// A limit is known by its name: what it has granted counts on when it is configured anew.
    private struct CounterID: Hashable {
        var limit: String
        var subject: ExactText?
    }

    /// So many, unless another number is said.
    package static let capacity = 4096
    /// Those are told to look again after so many milliseconds.
    private static let retryMilliseconds: Int64 = 1000
    /// The least time between two looks for counters that count nothing any more, in milliseconds.
    private static let leastSweepPause: Int64 = 100

    private var shares: [CounterID: LocalShare] = [:]
    private var subjectCount = 0
    /// The most counters of subjects that are kept; further subjects are refused for the time being.
    private let capacity: Int
    private var nextSweepAt = Instant(nanoseconds: .min)
    /// Until when something that was taken may still count.
    private var countsUntil = Instant(nanoseconds: .min)

    package init(capacity: Int = Self.capacity) {
        self.capacity = capacity
    }

    /// Whether nothing that was granted counts any more. Until then they are kept although Redis is back: it may go again, and
    /// nobody gets a share twice in a window.
    package func mayBeForgotten(at now: Instant) -> Bool { countsUntil <= now }

    /// Decides a batch as `take.lua` does. Refunds are left to Redis, which has the counters that they belong to.
    /// - Parameter sidecars: the number of sidecars that divide the limits, as far as is known now.
    package mutating func judge(_ batch: LimitBatch, sidecars: Int = 1, now: Instant) -> LimitVerdict {
        var opened = open(batch, sidecars: sidecars, now: now)
        // The wait for each counter that a waiting request found full: no later request may overtake it.
        var blocked = batch.counters.map { _ in Int64(0) }
        var fits: [LimitVerdict.Fit] = []
        fits.reserveCapacity(batch.charges.count)
        for run in batch.runs {
            let charges = batch.charges[run.charges]
            var granted = run.count
            for charge in charges {
                let fit = blocked[charge.counter] > 0 ? 0 : opened.fit(charge, of: run.count)
                fits.append(LimitVerdict.Fit(count: fit))
                if batch.mode != .together {
                    opened.take(charge.cost * Int64(fit), from: charge.counter, now: now)
                } else if !batch.isShadow(charge.counter) {
                    granted = min(granted, fit)
                }
            }
            for (index, charge) in zip(run.charges, charges) {
                let (counter, fit) = (charge.counter, fits[index].count)
                if batch.mode == .together {
                    opened.take(charge.cost * Int64(min(fit, granted)), from: counter, now: now)
                }
                if batch.isShadow(counter) { opened.counters[counter].excess += Int64(max(0, granted - fit)) }
                guard fit < run.count else { continue }
                let wait = max(opened.wait(for: max(1, charge.cost), from: counter, now: now), blocked[counter])
                fits[index].retryAfterMicroseconds = wait
                if run.waits, fit == granted, !batch.isShadow(counter) { blocked[counter] = wait }
            }
        }
        return LimitVerdict(timeMicroseconds: 0, counters: close(opened, now: now), fits: fits)
    }

    /// The counters of a batch while it is judged.
    private struct Opened {
        var ids: [CounterID]
        /// What is judged is kept only when it grants something. `nil`: there is no place for another subject.
        var shares: [LocalShare?]
        var counters: [LimitVerdict.Counter]
        private(set) var room: [Int64]

        init(ids: [CounterID], shares: [LocalShare?], now: Instant) {
            self.ids = ids
            self.shares = shares
            counters = shares.map { share in
                // One that finds no room has nothing to give.
                guard var share else {
                    return LimitVerdict.Counter(count: 0, capacity: 0, resetAfter: LocalCounters.retryMilliseconds)
                }
                return LimitVerdict.Counter(count: share.taken(now: now), capacity: share.capacity, resetAfter: 0)
            }
            room = counters.map { $0.capacity - $0.count }
        }

        /// The number of requests, of `count`, for which the counter of `charge` has room.
        func fit(_ charge: LimitBatch.Charge, of count: Int) -> Int {
            charge.cost > 0 ? Int(max(0, min(Int64(count), room[charge.counter] / charge.cost))) : count
        }

        mutating func take(_ cost: Int64, from index: Int, now: Instant) {
            guard cost > 0 else { return }
            room[index] -= cost
            shares[index]?.take(cost, now: now)
        }

        /// In how many microseconds there will be room for so much.
        mutating func wait(for cost: Int64, from index: Int, now: Instant) -> Int64 {
            max(1, shares[index]?.retryAfterMicroseconds(cost: cost, now: now) ?? counters[index].resetAfter * 1000)
        }
    }

    private mutating func open(_ batch: LimitBatch, sidecars: Int, now: Instant) -> Opened {
        var (ids, shares): ([CounterID], [LocalShare?]) = ([], [])
        for counter in batch.counters {
            let limit = batch.definitions[counter.definition]
            let id = CounterID(limit: limit.name, subject: counter.name.map(ExactText.init))
            ids.append(id)
            shares.append(share(of: limit, id, sidecars: sidecars, now: now))
        }
        return Opened(ids: ids, shares: shares, now: now)
    }

    /// Keeps what was granted.
    /// - Returns: what there is to tell of the counters.
    private mutating func close(_ opened: Opened, now: Instant) -> [LimitVerdict.Counter] {
        var counters = opened.counters
        for index in opened.shares.indices {
            guard var share = opened.shares[index] else { continue }
            counters[index].resetAfter = share.resetAfter(now: now)
            if opened.room[index] < counters[index].capacity - counters[index].count {
                keep(share, as: opened.ids[index], now: now)
            }
        }
        return counters
    }

    /// The share of a counter, of the limit and the fleet as they are now; `nil`: there is no room for another subject.
    private mutating func share(of definition: LimitDefinition, _ id: CounterID, sidecars: Int, now: Instant) -> LocalShare? {
        if let known = shares[id] { return known.redefined(by: definition, sidecars: sidecars, now: now) }
        guard id.subject == nil || subjectCount < capacity || sweep(now: now) else { return nil }
        return LocalShare(of: definition, sidecars: sidecars)
    }

    private mutating func keep(_ share: LocalShare, as id: CounterID, now: Instant) {
        if shares.updateValue(share, forKey: id) == nil, id.subject != nil { subjectCount += 1 }
        countsUntil = max(countsUntil, now.advanced(byMilliseconds: share.memoryMilliseconds(now: now)))
    }

    /// Drops the counters that count nothing any more. `true`: there is room.
    private mutating func sweep(now: Instant) -> Bool {
        guard nextSweepAt <= now else { return false }
        nextSweepAt = now.advanced(byMilliseconds: Self.leastSweepPause)
        shares = shares.filter { entry in
            var share = entry.value
            return share.taken(now: now) > 0
        }
        subjectCount = shares.keys.count { $0.subject != nil }
        return subjectCount < capacity
    }
}
