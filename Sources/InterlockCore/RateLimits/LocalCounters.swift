/// Judges batches while Redis is away, by this sidecar's share of each limit, under the same rules as the script.
package struct LocalCounters: Sendable {
    /// A limit is known by its name: what it has granted counts on when it is configured anew.
    fileprivate struct CounterID: Hashable {
        var limit: String
        var subject: ExactText?
    }

    /// So many, unless another number is said.
    package static let capacity = 4096
    /// Those are told to look again after so many milliseconds.
    fileprivate static let retryMilliseconds: Int64 = 1000
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

    /// - Parameter sidecars: among how many the limits are divided, as far as is known now.
    package mutating func judge(_ batch: LimitBatch, sidecars: Int = 1, now: Instant) -> LimitVerdict {
        let definitions = batch.counters.map { batch.definitions[$0.definition] }
        var opened = open(zip(definitions, batch.counters).map { ($0, $1.subject) }, sidecars: sidecars, now: now)
        var blocked = definitions.map { _ in Int64(0) }
        var runs: [LimitVerdict.Run] = []
        for run in batch.runs {
            let (wide, narrow) = batch.counterIndices(ofGroup: run.group)
            let applicable = Array(wide) + Array(narrow)
            let real = applicable.filter { !definitions[$0].isShadow }
            var granted = Int64(run.count)
            for index in real { granted = min(granted, blocked[index] > 0 ? 0 : max(0, opened.room[index]) / run.cost) }
            for index in real { opened.take(granted * run.cost, from: index, now: now) }
            var binding = 0
            var longest: Int64 = 0
            if granted < run.count {
                for index in real where blocked[index] > 0 || opened.room[index] < run.cost {
                    let wait = max(opened.wait(for: run.cost, from: index, now: now), blocked[index])
                    if run.waits { blocked[index] = wait }
                    if wait > longest { (binding, longest) = (index, wait) }
                }
            }
            for index in applicable where definitions[index].isShadow {
                let fits = min(granted, max(0, opened.room[index]) / run.cost)
                opened.take(fits * run.cost, from: index, now: now)
                opened.counters[index].excess += granted - fits
            }
            runs.append(LimitVerdict.Run(granted: Int(granted), binding: binding, retryAfterMicroseconds: longest))
        }
        return LimitVerdict(timeMicroseconds: 0, counters: close(opened, now: now), runs: runs)
    }

    /// The counters of a batch while it is judged.
    struct Opened {
        fileprivate var ids: [CounterID]
        /// What is judged is kept only when it grants something. `nil`: there is no place for another subject.
        fileprivate var shares: [LocalShare?]
        var counters: [LimitVerdict.Counter]
        private(set) var room: [Int64]

        fileprivate init(ids: [CounterID], shares: [LocalShare?], now: Instant) {
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

    mutating func open(_ limits: [(limit: LimitDefinition, subject: String?)], sidecars: Int, now: Instant) -> Opened {
        let ids = limits.map { CounterID(limit: $0.limit.name, subject: $0.subject.map(ExactText.init)) }
        return Opened(
            ids: ids, shares: zip(limits, ids).map { share(of: $0.limit, $1, sidecars: sidecars, now: now) }, now: now)
    }

    /// Keeps what was granted.
    /// - Returns: what there is to tell of the counters.
    mutating func close(_ opened: Opened, now: Instant) -> [LimitVerdict.Counter] {
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
