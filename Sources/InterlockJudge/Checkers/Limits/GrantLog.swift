internal import DequeModule
internal import InterlockCore

/// The grants of one counter, ordered by request. Determines how much is known to fall into one window, and by how much
/// any period exceeds the rate.
///
/// Redis grants a call at some time between its request and its answer. Grants are known to fall into a period if all
/// of them were requested after its start and answered before its end. Grants are added in the order of their answers,
/// so the relevant set is always that of the latest requests.
///
/// Amortized O(1) per grant; O(later requests) for one that waited. Memory grows with the grants of a window.
struct GrantLog: Sendable {
    private struct Entry: Sendable {
        var invoked: Int64
        /// The cost of the grant; negative for an amount that may be granted again.
        var cost: Int64
        /// The maximum amount by which a period that ends here exceeds the rate: the level of a leaky bucket.
        var level: Double
    }

    /// The maximum number of entries. The oldest are dropped first.
    private static let capacity = 1 << 16
    /// The age in nanoseconds up to which entries outside the window are kept, so that late answers can be sorted in.
    private static let reorderingWindow: Int64 = 10_000_000_000

    private let window: Int64
    private let rate: Double
    private var entries: Deque<Entry> = []
    /// The number of entries at the front that are older than a window.
    private var expiredCount = 0
    private var sum: Int64 = 0
    /// The entry that was dropped last.
    private var lastDropped: Entry?

    /// - Parameters:
    ///   - window: the length of a window in nanoseconds.
    ///   - rate: the amount granted per nanosecond.
    init(window: Int64, rate: Double) {
        self.window = window
        self.rate = rate
    }

    /// Adds the grant that was answered last.
    /// - Returns: the amount known to be granted in less than one window that ends now, and the maximum amount by which
    ///   a period that ends now exceeds the rate.
    mutating func add(_ cost: Int64, invoked: Instant, ended: Instant) -> (inWindow: Int64, excess: Double) {
        trim(at: ended.nanoseconds)
        if lastDropped.map({ $0.invoked <= invoked.nanoseconds }) ?? true {
            insert(Entry(invoked: invoked.nanoseconds, cost: cost, level: 0), at: ended.nanoseconds)
        }
        let last = entries.last ?? lastDropped
        let excess = last.map { $0.level - Double(ended.nanoseconds - $0.invoked) * rate } ?? 0
        return (sum, excess)
    }

    /// Reduces the amount of all grants requested before `instant`, including grants that are added later.
    mutating func forgive(_ amount: Int64, at instant: Instant) {
        insert(Entry(invoked: instant.nanoseconds, cost: -amount, level: 0), at: instant.nanoseconds)
    }

    mutating func removeAll() {
        entries.removeAll()
        (expiredCount, sum, lastDropped) = (0, 0, nil)
    }

    private mutating func trim(at instant: Int64) {
        while expiredCount < entries.count, entries[expiredCount].invoked <= instant - window {
            sum -= max(0, entries[expiredCount].cost)
            expiredCount += 1
        }
        while expiredCount > 0, entries[0].invoked <= instant - Self.reorderingWindow || entries.count >= Self.capacity {
            dropFirst()
        }
        while entries.count >= Self.capacity { dropFirst() }
    }

    private mutating func dropFirst() {
        let dropped = entries.removeFirst()
        if expiredCount > 0 { expiredCount -= 1 } else { sum -= max(0, dropped.cost) }
        lastDropped = dropped
    }

    private mutating func insert(_ entry: Entry, at instant: Int64) {
        var index = entries.count
        while index > 0, entries[index - 1].invoked > entry.invoked { index -= 1 }
        entries.insert(entry, at: index)
        if index < expiredCount || entry.invoked <= instant - window {
            expiredCount += 1
        } else {
            sum += max(0, entry.cost)
        }
        var before = index > 0 ? entries[index - 1] : lastDropped
        for later in index..<entries.count {
            let remaining = before.map { max(0, $0.level - Double(entries[later].invoked - $0.invoked) * rate) } ?? 0
            entries[later].level = max(0, remaining + Double(entries[later].cost))
            before = entries[later]
        }
    }
}
