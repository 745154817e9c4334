internal import InterlockCore

/// Assigns grants to the windows of one fixed counter. Each answer contains the time in milliseconds from Redis's
/// decision to the end of the window. Redis decided at some time between the request and the answer.
///
/// The ends of two windows are at least one window apart, in whole milliseconds. Two grants are known to be in the same
/// window if all their possible ends are closer together. Ambiguous grants count for no window.
struct FixedWindows: Sendable {
    private struct Window: Sendable {
        /// The earliest and latest possible end of the window.
        var earliestEndNanoseconds: Int64
        var latestEndNanoseconds: Int64
        /// The amount known to be granted in the window.
        var granted: Int64
        var isReported = false
    }

    /// The maximum number of windows. Above it, `add` drops the oldest.
    private static let maximumWindows = 4
    /// The tolerance for reported ends, in nanoseconds. Redis reports whole milliseconds, and versions up to 0.2.0 the
    /// millisecond before a window's end.
    private static let toleranceNanoseconds: Int64 = 2_000_000

    private let lengthNanoseconds: Int64
    private let clockDrift: Double
    /// The windows, the newest last.
    private var windows: [Window] = []
    /// The number of grants that could not be assigned to a window.
    private(set) var undecidedGrantCount = 0

    /// Creates an empty assignment.
    /// - Parameters:
    ///   - windowNanoseconds: the length of a window.
    ///   - clockDrift: see `HistoryRules.clockDrift`.
    init(windowNanoseconds: Int64, clockDrift: Double) {
        lengthNanoseconds = windowNanoseconds
        self.clockDrift = clockDrift
    }

    /// Adds a grant.
    /// - Parameter resetAfterMilliseconds: the remaining time of the window, according to the answer.
    /// - Returns: the amount known to be granted in this window when it first exceeds `limit`, otherwise `nil`.
    mutating func add(
        _ cost: Int64, invoked: Instant, ended: Instant, resetAfterMilliseconds: Int64, limit: Int64
    ) -> Int64? {
        let driftNanoseconds = Int64(Double(resetAfterMilliseconds) * clockDrift * 1e6)
        let marginNanoseconds = Self.toleranceNanoseconds + driftNanoseconds
        let earliest = invoked.advanced(byMilliseconds: resetAfterMilliseconds).nanoseconds - marginNanoseconds
        let latest = ended.advanced(byMilliseconds: resetAfterMilliseconds).nanoseconds + marginNanoseconds
        guard latest - earliest < lengthNanoseconds - Self.toleranceNanoseconds else {
            undecidedGrantCount += 1
            return nil
        }
        var isAmbiguous = false
        for index in windows.indices.reversed() {
            let span =
                max(latest, windows[index].latestEndNanoseconds) - min(earliest, windows[index].earliestEndNanoseconds)
            guard span < lengthNanoseconds - Self.toleranceNanoseconds else {
                if earliest <= windows[index].latestEndNanoseconds, windows[index].earliestEndNanoseconds <= latest {
                    isAmbiguous = true
                }
                continue
            }
            let low = max(earliest, windows[index].earliestEndNanoseconds)
            let high = min(latest, windows[index].latestEndNanoseconds)
            windows[index].earliestEndNanoseconds = min(low, high)
            windows[index].latestEndNanoseconds = max(low, high)
            windows[index].granted += cost
            guard windows[index].granted > limit, !windows[index].isReported else { return nil }
            windows[index].isReported = true
            return windows[index].granted
        }
        guard !isAmbiguous else {
            undecidedGrantCount += 1
            return nil
        }
        if windows.count == Self.maximumWindows { windows.removeFirst() }
        windows.append(Window(earliestEndNanoseconds: earliest, latestEndNanoseconds: latest, granted: cost))
        return nil
    }

    mutating func removeAll() {
        windows.removeAll(keepingCapacity: true)
    }
}
