internal import InterlockCore

/// Assigns grants to the windows of one fixed counter. Each answer contains the time in milliseconds from Redis's
/// decision to the end of the window. Redis decided at some time between the request and the answer.
///
/// The ends of two windows are at least one window apart, in whole milliseconds. Two grants are known to be in the same
/// window if all their possible ends are closer together. Ambiguous grants do not count.
struct FixedWindows: Sendable {
    private struct Window: Sendable {
        /// The earliest possible end of the window.
        var earliest: Int64
        var latest: Int64
        var granted: Int64
        var isReported = false
    }

    /// The maximum number of windows. The oldest are dropped first.
    private static let maximumWindows = 4
    /// The tolerance for reported ends, in nanoseconds. Redis reports whole milliseconds, and versions up to 0.2.0 the
    /// millisecond before a window's end.
    private static let tolerance: Int64 = 2_000_000

    private let length: Int64
    private let clockDrift: Double
    /// The windows, the newest last.
    private var windows: [Window] = []
    /// The number of grants that could not be assigned to a window.
    private(set) var undecided = 0

    /// - Parameters:
    ///   - window: the length of a window in nanoseconds.
    ///   - clockDrift: see `HistoryRules.clockDrift`.
    init(window: Int64, clockDrift: Double) {
        length = window
        self.clockDrift = clockDrift
    }

    /// Adds a grant.
    /// - Parameter resetAfter: the remaining time of the window in milliseconds, according to the answer.
    /// - Returns: the amount known to be granted in this window when it first exceeds `limit`, otherwise `nil`.
    mutating func add(_ cost: Int64, invoked: Instant, ended: Instant, resetAfter: Int64, limit: Int64) -> Int64? {
        let drift = Int64(Double(resetAfter) * clockDrift * 1e6)
        let earliest = invoked.advanced(byMilliseconds: resetAfter).nanoseconds - Self.tolerance - drift
        let latest = ended.advanced(byMilliseconds: resetAfter).nanoseconds + Self.tolerance + drift
        guard latest - earliest < length - Self.tolerance else {
            undecided += 1
            return nil
        }
        var isAmbiguous = false
        for index in windows.indices.reversed() {
            let span = max(latest, windows[index].latest) - min(earliest, windows[index].earliest)
            guard span < length - Self.tolerance else {
                if earliest <= windows[index].latest, windows[index].earliest <= latest { isAmbiguous = true }
                continue
            }
            let (low, high) = (max(earliest, windows[index].earliest), min(latest, windows[index].latest))
            (windows[index].earliest, windows[index].latest) = (min(low, high), max(low, high))
            windows[index].granted += cost
            guard windows[index].granted > limit, !windows[index].isReported else { return nil }
            windows[index].isReported = true
            return windows[index].granted
        }
        guard !isAmbiguous else {
            undecided += 1
            return nil
        }
        if windows.count == Self.maximumWindows { windows.removeFirst() }
        windows.append(Window(earliest: earliest, latest: latest, granted: cost))
        return nil
    }

    mutating func removeAll() {
        windows.removeAll(keepingCapacity: true)
    }
}
