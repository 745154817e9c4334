internal import DequeModule
internal import InterlockCore

/// What was granted of one counter, in the order in which it was asked for: how much of it certainly falls into one window, and
/// how much more than its rate in any time.
///
/// Nobody knows when Redis granted a call, only that it was between its request and its answer. A set of grants certainly falls
/// into a time when all were asked for after its beginning and answered before its end. Grants are added when they were
/// answered, so the set that matters is always that of the latest requests.
///
/// Amortised O(1) for each grant, and O(grants asked for later) for one that waited. Bounded by what a window grants.
struct GrantLog: Sendable {
    private struct Entry: Sendable {
        var invoked: Int64
        /// Negative: what is granted once more.
        var cost: Int64
        /// The most by which the grants of any time that ends here exceed what the rate allows: the level of a leaking bucket.
        var level: Double
    }

    /// More are not kept: beyond, the oldest are forgotten.
    private static let capacity = 1 << 16
    /// A call that was asked for longer ago than this is put into no order any more, in nanoseconds.
    private static let longestOrder: Int64 = 10_000_000_000

    private let window: Int64
    private let rate: Double
    private var entries: Deque<Entry> = []
    /// So many at the front are older than a window.
    private var outside = 0
    private var sum: Int64 = 0
    /// What was last forgotten.
    private var base: Entry?

    /// - Parameters:
    ///   - window: in nanoseconds.
    ///   - rate: how much is granted in a nanosecond.
    init(window: Int64, rate: Double) {
        self.window = window
        self.rate = rate
    }

    /// Adds a grant that was answered last of all.
    /// - Returns: what was certainly granted in a time shorter than a window that ends now, and the most by which any time that
    ///   ends now exceeds the rate.
    mutating func add(_ cost: Int64, invoked: Instant, ended: Instant) -> (inWindow: Int64, excess: Double) {
        trim(at: ended.nanoseconds)
        if base.map({ $0.invoked <= invoked.nanoseconds }) ?? true {
            insert(Entry(invoked: invoked.nanoseconds, cost: cost, level: 0), at: ended.nanoseconds)
        }
        let last = entries.last ?? base
        let excess = last.map { $0.level - Double(ended.nanoseconds - $0.invoked) * rate } ?? 0
        return (sum, excess)
    }

    /// What was granted before `instant` counts for so much less, also what is added later.
    mutating func forgive(_ amount: Int64, at instant: Instant) {
        insert(Entry(invoked: instant.nanoseconds, cost: -amount, level: 0), at: instant.nanoseconds)
    }

    mutating func removeAll() {
        entries.removeAll()
        (outside, sum, base) = (0, 0, nil)
    }

    private mutating func trim(at instant: Int64) {
        while outside < entries.count, entries[outside].invoked <= instant - window {
            sum -= max(0, entries[outside].cost)
            outside += 1
        }
        while outside > 0, entries[0].invoked <= instant - Self.longestOrder || entries.count >= Self.capacity { dropFirst() }
        while entries.count >= Self.capacity { dropFirst() }
    }

    private mutating func dropFirst() {
        let dropped = entries.removeFirst()
        if outside > 0 { outside -= 1 } else { sum -= max(0, dropped.cost) }
        base = dropped
    }

    private mutating func insert(_ entry: Entry, at instant: Int64) {
        var place = entries.count
        while place > 0, entries[place - 1].invoked > entry.invoked { place -= 1 }
        entries.insert(entry, at: place)
        if place < outside || entry.invoked <= instant - window {
            outside += 1
        } else {
            sum += max(0, entry.cost)
        }
        var before = place > 0 ? entries[place - 1] : base
        for later in place..<entries.count {
            let left = before.map { max(0, $0.level - Double(entries[later].invoked - $0.invoked) * rate) } ?? 0
            entries[later].level = max(0, left + Double(entries[later].cost))
            before = entries[later]
        }
    }
}
