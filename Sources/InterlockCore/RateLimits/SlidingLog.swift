internal import DequeModule

/// What was granted in a sliding window, on this sidecar's own clock. Bounded: grants that are close together share an entry,
/// which counts until the last of them would.
struct SlidingLog: Sendable {
    private struct Entry: Sendable {
        var firstAt: Int64
        var lastAt: Int64
        var cost: Int64
    }

    /// The most entries, but for one.
    private static let resolution: Int64 = 256

    private(set) var windowMicroseconds: Int64
    private var entries: Deque<Entry> = []
    private(set) var total: Int64 = 0

    init(windowMicroseconds: Int64) {
        self.windowMicroseconds = windowMicroseconds
    }

    /// The same grants, which count for as long.
    func lasting(microseconds: Int64) -> SlidingLog {
        var log = self
        log.windowMicroseconds = microseconds
        return log
    }

    /// Forgets what counts no more. Amortised O(1).
    mutating func trim(now: Int64) {
        while let oldest = entries.first, oldest.lastAt < now - windowMicroseconds {
            total -= oldest.cost
            entries.removeFirst()
        }
    }

    mutating func take(_ cost: Int64, now: Int64) {
        total += cost
        if let last = entries.last, now - last.firstAt <= windowMicroseconds / Self.resolution {
            entries[entries.count - 1].lastAt = max(now, last.lastAt)
            entries[entries.count - 1].cost += cost
        } else {
            entries.append(Entry(firstAt: now, lastAt: now, cost: cost))
        }
    }

    /// In how many microseconds `cost` of what counts now will count no more. O(entries).
    func wait(untilFreed cost: Int64, now: Int64) -> Int64 {
        guard cost > 0 else { return 0 }
        var freed: Int64 = 0
        for entry in entries {
            freed += entry.cost
            if freed >= cost { return entry.lastAt + windowMicroseconds + 1 - now }
        }
        return windowMicroseconds + 1
    }
}
