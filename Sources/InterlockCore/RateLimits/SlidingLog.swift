internal import DequeModule

/// The grants of a sliding window, by this sidecar's own clock. To limit their number, grants that are close together
/// form one entry, which counts until the newest of them expires.
struct SlidingLog: Sendable {
    private struct Entry: Sendable {
        var firstAt: Int64
        var lastAt: Int64
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

    /// Returns the microseconds until `cost` of the current total has expired. O(entries).
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
