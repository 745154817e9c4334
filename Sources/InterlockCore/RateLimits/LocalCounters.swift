/// Judges batches while Redis is away, by this sidecar's share of each limit, under the same rules as the script.
public struct LocalCounters: Sendable {
    private struct CounterID: Hashable {
        var definition: LimitDefinition
        var subject: ExactText?
    }

    /// For how long what was refused by these is relied on, in milliseconds: Redis may be back at any moment, and have room.
    public static let refusalMilliseconds: Int64 = 1000
    /// The most counters of subjects that are kept; further subjects are refused until Redis is back.
    public static let capacity = 4096

    private var shares: [CounterID: LocalShare] = [:]
    private let sidecars: Int
    /// Until when something that was taken may still count.
    private var countsUntil = Instant(nanoseconds: .min)

    /// - Parameter sidecars: among how many the limits are divided.
    public init(sidecars: Int) {
        self.sidecars = sidecars
    }

    /// Whether nothing that was granted counts any more. Until then they are kept although Redis is back: it may go again, and
    /// nobody gets a share twice in a window.
    public func mayBeForgotten(at now: Instant) -> Bool { countsUntil <= now }

    public mutating func judge(_ batch: LimitBatch, now: Instant) -> LimitVerdict {
        let definitions = batch.counters.map { batch.definitions[$0.definition] }
        let ids = zip(definitions, batch.counters).map { CounterID(definition: $0, subject: $1.subject.map(ExactText.init)) }
        // One that finds no room has nothing to give.
        var counters = zip(definitions, ids).map { definition, id in
            open(id).map { share in
                var share = share
                return LimitVerdict.Counter(count: share.taken(now: now), capacity: share.capacity, resetAfter: 0)
            } ?? LimitVerdict.Counter(count: 0, capacity: 0, resetAfter: definition.windowMilliseconds)
        }
        var room = counters.map { $0.capacity - $0.count }
        var blocked = counters.map { _ in Int64(0) }
        var runs: [LimitVerdict.Run] = []
        for run in batch.runs {
            let (wide, narrow) = batch.counterIndices(ofGroup: run.group)
            let applicable = Array(wide) + Array(narrow)
            let real = applicable.filter { !definitions[$0].isShadow }
            var granted = Int64(run.count)
            for index in real { granted = min(granted, blocked[index] > 0 ? 0 : max(0, room[index]) / run.cost) }
            for index in real { take(granted * run.cost, from: ids[index], room: &room[index], now: now) }
            var binding = 0
            var longest: Int64 = 0
            if granted < run.count {
                for index in real where blocked[index] > 0 || room[index] < run.cost {
                    let own = shares[ids[index]]?.retryAfterMicroseconds(cost: run.cost, now: now)
                    let wait = max(1, own ?? counters[index].resetAfter * 1000, blocked[index])
                    if run.waits { blocked[index] = wait }
                    if wait > longest { (binding, longest) = (index, wait) }
                }
            }
            for index in applicable where definitions[index].isShadow {
                let fits = min(granted, max(0, room[index]) / run.cost)
                take(fits * run.cost, from: ids[index], room: &room[index], now: now)
                counters[index].excess += granted - fits
            }
            runs.append(LimitVerdict.Run(granted: Int(granted), binding: binding, retryAfterMicroseconds: longest))
        }
        for (index, id) in ids.enumerated() {
            if let reset = shares[id]?.resetAfter(now: now) { counters[index].resetAfter = reset }
        }
        return LimitVerdict(timeMicroseconds: 0, counters: counters, runs: runs)
    }

    private mutating func open(_ id: CounterID) -> LocalShare? {
        if let known = shares[id] { return known }
        guard id.subject == nil || shares.count < Self.capacity else { return nil }
        let share = LocalShare(of: id.definition, sidecars: sidecars)
        shares[id] = share
        return share
    }

    private mutating func take(_ cost: Int64, from id: CounterID, room: inout Int64, now: Instant) {
        guard cost > 0 else { return }
        room -= cost
        shares[id]?.take(cost, now: now)
        let memory = shares[id]?.memoryMilliseconds(now: now) ?? 0
        countsUntil = max(countsUntil, now.advanced(byMilliseconds: memory))
    }
}
