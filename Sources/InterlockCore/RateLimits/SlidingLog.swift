internal import DequeModule

/// The grants of a sliding window, by this sidecar's own clock. Grants that are close together form one entry, which
/// counts until the newest of them expires. This limits the number of entries. `now` is in microseconds of the clock.
struct SlidingLog: Sendable {
    private struct Entry: Sendable {
        var firstMicroseconds: Int64
        var lastMicroseconds: Int64
        var cost: Int64
    }

    /// The number of entries that span a window; the log holds at most one more.
    private static let resolution: Int64 = 256

    private(set) var windowMicroseconds: Int64
    private var entries: Deque<Entry> = []
    private(set) var total: Int64 = 0

    init(windowMicroseconds: Int64) {
        self.windowMicroseconds = windowMicroseconds
    }

    /// Returns a log of the same grants with another window.
    func withWindow(microseconds: Int64) -> SlidingLog {
        var log = self
        log.windowMicroseconds = microseconds
        return log
    }

    /// Drops expired entries. Amortized O(1).
    mutating func trim(nowMicroseconds: Int64) {
        while let oldest = entries.first, oldest.lastMicroseconds < nowMicroseconds - windowMicroseconds {
            total -= oldest.cost
            entries.removeFirst()
        }
    }

    mutating func take(_ cost: Int64, nowMicroseconds: Int64) {
        total += cost
        if let newest = entries.last,
            nowMicroseconds - newest.firstMicroseconds <= windowMicroseconds / Self.resolution
        {
            entries[entries.count - 1].lastMicroseconds = max(nowMicroseconds, newest.lastMicroseconds)
            entries[entries.count - 1].cost += cost
        } else {
            entries.append(Entry(firstMicroseconds: nowMicroseconds, lastMicroseconds: nowMicroseconds, cost: cost))
        }
    }

    /// Returns the microseconds until `cost` of the current total has expired. O(entries).
    func waitMicroseconds(untilFreed cost: Int64, nowMicroseconds: Int64) -> Int64 {
        guard cost > 0 else { return 0 }
        var freed: Int64 = 0
        for entry in entries {
            freed += entry.cost
            if freed >= cost { return entry.lastMicroseconds + windowMicroseconds + 1 - nowMicroseconds }
        }
        return windowMicroseconds + 1
    }
}
