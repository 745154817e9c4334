/// Judges batches while Redis is away, by this sidecar's share of each limit, under the same rules as the script.
public struct LocalCounters: Sendable {
    private struct CounterID: Hashable {
        var definition: LimitDefinition
        var subject: String?
    }

    /// The most counters of subjects that are kept; further subjects are refused until Redis is back.
    public static let capacity = 4096

    private var shares: [CounterID: LocalShare] = [:]
    private let sidecars: Int

    /// - Parameter sidecars: among how many the limits are divided.
    public init(sidecars: Int) {
        self.sidecars = sidecars
    }

    /// The verdict, and the limit that was applied to each counter.
    public mutating func judge(_ batch: LimitBatch, now: Instant) -> (verdict: LimitVerdict, limits: [Int64]) {
        let counters = batch.counters
        var states: [LimitVerdict.Counter] = []
        var remaining: [Int64] = []
        var limits: [Int64] = []
        let ids = counters.map { CounterID(definition: batch.definitions[$0.definition], subject: $0.subject) }
        for (id, counter) in zip(ids, counters) {
            var share = shares[id] ?? newShare(of: counter)
            let left = share?.remaining(now: now) ?? 0
            let limit = share?.limit ?? 0
            states.append(
                LimitVerdict.Counter(count: limit - left, ttl: share?.resetAfter(now: now) ?? counter.windowMilliseconds))
            remaining.append(left)
            limits.append(limit)
            shares[id] = share
        }
        var blocked = Array(repeating: false, count: counters.count)
        var runs: [LimitVerdict.Run] = []
        for run in batch.runs {
            let (wide, narrow) = batch.counterIndices(ofGroup: run.group)
            let applicable = Array(wide) + Array(narrow)
            var granted = Int64(run.count)
            for index in applicable { granted = min(granted, blocked[index] ? 0 : remaining[index] / run.cost) }
            for index in applicable {
                remaining[index] -= granted * run.cost
                if granted > 0 { shares[ids[index]]?.take(granted * run.cost, now: now) }
            }
            let lacking = applicable.filter { blocked[$0] || remaining[$0] < run.cost }
            if granted < run.count, run.waits { for index in lacking { blocked[index] = true } }
            let binding = lacking.max { states[$0].ttl < states[$1].ttl } ?? 0
            runs.append(LimitVerdict.Run(granted: Int(granted), binding: binding))
        }
        return (LimitVerdict(timeMilliseconds: 0, counters: states, runs: runs), limits)
    }

    private func newShare(of counter: LimitBatch.Counter) -> LocalShare? {
        guard counter.subject == nil || shares.count < Self.capacity else { return nil }
        return LocalShare(limit: counter.limit, windowMilliseconds: counter.windowMilliseconds, sidecars: sidecars)
    }
}
