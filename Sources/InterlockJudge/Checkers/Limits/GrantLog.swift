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
        var invokedNanoseconds: Int64
        /// The cost of the grant; negative for an amount that may be granted again.
        var cost: Int64
        /// The maximum amount by which a period that ends here exceeds the rate: the level of a leaky bucket.
        var level: Double
    }

    /// The maximum number of entries. Above it, `add` drops the oldest.
    private static let capacity = 1 << 16
    /// The age in nanoseconds up to which entries outside the window are kept, so that grants with late answers
    /// can be inserted in order.
    private static let reorderingNanoseconds: Int64 = 10_000_000_000

    private let windowNanoseconds: Int64
    private let ratePerNanosecond: Double
    private var entries: Deque<Entry> = []
    /// The number of entries at the front that are older than a window.
    private var expiredCount = 0
    /// The amount granted in the last window.
    private var amountInWindow: Int64 = 0
    /// The entry that was dropped last.
    private var lastDropped: Entry?

    /// Creates an empty log.
    /// - Parameters:
    ///   - windowNanoseconds: the length of a window.
    ///   - ratePerNanosecond: the amount granted per nanosecond.
    init(windowNanoseconds: Int64, ratePerNanosecond: Double) {
        self.windowNanoseconds = windowNanoseconds
        self.ratePerNanosecond = ratePerNanosecond
    }

    /// Adds the grant that was answered last.
    /// - Returns: the amount known to be granted in less than one window that ends now, and the maximum amount by which
    ///   a period that ends now exceeds the rate.
    mutating func add(_ cost: Int64, invoked: Instant, ended: Instant) -> (inWindow: Int64, excess: Double) {
        trim(at: ended.nanoseconds)
        if lastDropped.map({ $0.invokedNanoseconds <= invoked.nanoseconds }) ?? true {
            insert(Entry(invokedNanoseconds: invoked.nanoseconds, cost: cost, level: 0), at: ended.nanoseconds)
        }
        let last = entries.last ?? lastDropped
        let excess = last.map { $0.level - Double(ended.nanoseconds - $0.invokedNanoseconds) * ratePerNanosecond } ?? 0
        return (amountInWindow, excess)
    }

    /// Reduces the amount of all grants requested before `instant`, including grants that `add` receives later.
    mutating func forgive(_ amount: Int64, at instant: Instant) {
        insert(Entry(invokedNanoseconds: instant.nanoseconds, cost: -amount, level: 0), at: instant.nanoseconds)
    }

    mutating func removeAll() {
        entries.removeAll()
        (expiredCount, amountInWindow, lastDropped) = (0, 0, nil)
    }

    private mutating func trim(at nowNanoseconds: Int64) {
        while expiredCount < entries.count,
            entries[expiredCount].invokedNanoseconds <= nowNanoseconds - windowNanoseconds
        {
            amountInWindow -= max(0, entries[expiredCount].cost)
            expiredCount += 1
        }
        let oldestNanoseconds = nowNanoseconds - Self.reorderingNanoseconds
        while expiredCount > 0, entries[0].invokedNanoseconds <= oldestNanoseconds || entries.count >= Self.capacity {
            dropFirst()
        }
        while entries.count >= Self.capacity { dropFirst() }
    }

    private mutating func dropFirst() {
        let dropped = entries.removeFirst()
        if expiredCount > 0 { expiredCount -= 1 } else { amountInWindow -= max(0, dropped.cost) }
        lastDropped = dropped
    }

    private mutating func insert(_ entry: Entry, at nowNanoseconds: Int64) {
        var index = entries.count
        while index > 0, entries[index - 1].invokedNanoseconds > entry.invokedNanoseconds { index -= 1 }
        entries.insert(entry, at: index)
        if index < expiredCount || entry.invokedNanoseconds <= nowNanoseconds - windowNanoseconds {
            expiredCount += 1
        } else {
            amountInWindow += max(0, entry.cost)
        }
        var predecessor = index > 0 ? entries[index - 1] : lastDropped
        for laterIndex in index..<entries.count {
            let remaining =
                predecessor.map { predecessor in
                    let elapsed = Double(entries[laterIndex].invokedNanoseconds - predecessor.invokedNanoseconds)
                    return max(0, predecessor.level - elapsed * ratePerNanosecond)
                } ?? 0
            entries[laterIndex].level = max(0, remaining + Double(entries[laterIndex].cost))
            predecessor = entries[laterIndex]
        }
    }
}
