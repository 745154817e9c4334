/// Judges batches while Redis is away, by this sidecar's share of each limit, under the same rules as the script.
package struct LocalCounters: Sendable {
    /// A limit is known by its name: what it has granted counts on when it is configured anew.
    private struct CounterID: Hashable {
        var limit: String
        var subject: ExactText?
    }

    /// The most counters of subjects that are kept; further subjects are refused for the time being.
    package static let capacity = 4096
    /// Those are told to look again after so many milliseconds.
    private static let retryMilliseconds: Int64 = 1000
    /// The least time between two looks for counters that count nothing any more, in milliseconds.
    private static let leastSweepPause: Int64 = 100

    private var shares: [CounterID: LocalShare] = [:]
    private var subjectCount = 0
    private var nextSweepAt = Instant(nanoseconds: .min)
    /// Until when something that was taken may still count.
    private var countsUntil = Instant(nanoseconds: .min)

    package init() {}

    /// Whether nothing that was granted counts any more. Until then they are kept although Redis is back: it may go again, and
    /// nobody gets a share twice in a window.
    package func mayBeForgotten(at now: Instant) -> Bool { countsUntil <= now }

    /// - Parameter sidecars: among how many the limits are divided, as far as is known now.
    package mutating func judge(_ batch: LimitBatch, sidecars: Int = 1, now: Instant) -> LimitVerdict {
        let definitions = batch.counters.map { batch.definitions[$0.definition] }
        let ids = zip(definitions, batch.counters).map { CounterID(limit: $0.name, subject: $1.subject.map(ExactText.init)) }
        // What is judged is kept only when it grants something.
        var judged = zip(definitions, ids).map { share(of: $0, $1, sidecars: sidecars, now: now) }
        // One that finds no room has nothing to give.
        var counters = judged.map { share in
            guard var share else { return LimitVerdict.Counter(count: 0, capacity: 0, resetAfter: Self.retryMilliseconds) }
            return LimitVerdict.Counter(count: share.taken(now: now), capacity: share.capacity, resetAfter: 0)
        }
        var room = counters.map { $0.capacity - $0.count }
        var blocked = counters.map { _ in Int64(0) }
        var runs: [LimitVerdict.Run] = []
        func take(_ cost: Int64, from index: Int) {
            guard cost > 0 else { return }
            room[index] -= cost
            judged[index]?.take(cost, now: now)
        }
        for run in batch.runs {
            let (wide, narrow) = batch.counterIndices(ofGroup: run.group)
            let applicable = Array(wide) + Array(narrow)
            let real = applicable.filter { !definitions[$0].isShadow }
            var granted = Int64(run.count)
            for index in real { granted = min(granted, blocked[index] > 0 ? 0 : max(0, room[index]) / run.cost) }
            for index in real { take(granted * run.cost, from: index) }
            var binding = 0
            var longest: Int64 = 0
            if granted < run.count {
                for index in real where blocked[index] > 0 || room[index] < run.cost {
                    let own = judged[index]?.retryAfterMicroseconds(cost: run.cost, now: now)
                    let wait = max(1, own ?? counters[index].resetAfter * 1000, blocked[index])
                    if run.waits { blocked[index] = wait }
                    if wait > longest { (binding, longest) = (index, wait) }
                }
            }
            for index in applicable where definitions[index].isShadow {
                let fits = min(granted, max(0, room[index]) / run.cost)
                take(fits * run.cost, from: index)
                counters[index].excess += granted - fits
            }
            runs.append(LimitVerdict.Run(granted: Int(granted), binding: binding, retryAfterMicroseconds: longest))
        }
        for index in judged.indices {
            guard let reset = judged[index]?.resetAfter(now: now) else { continue }
            counters[index].resetAfter = reset
            if room[index] < counters[index].capacity - counters[index].count, let share = judged[index] {
                keep(share, as: ids[index], now: now)
            }
        }
        return LimitVerdict(timeMicroseconds: 0, counters: counters, runs: runs)
    }

    /// The share of a counter, of the limit and the fleet as they are now; `nil`: there is no room for another subject.
    private mutating func share(of definition: LimitDefinition, _ id: CounterID, sidecars: Int, now: Instant) -> LocalShare? {
        if let known = shares[id] { return known.redefined(by: definition, sidecars: sidecars, now: now) }
        guard id.subject == nil || subjectCount < Self.capacity || sweep(now: now) else { return nil }
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
        return subjectCount < Self.capacity
    }
}
