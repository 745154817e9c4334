internal import InterlockCore

/// Tells the windows of one fixed counter apart by their ends, which each answer tells: so many milliseconds after Redis
/// judged, which was some time between request and answer.
///
/// The ends of two windows are at least a window apart. So two grants are certainly of one window when all that their ends may
/// be lies within less than that. Where it can be either way, the grant is not counted.
struct FixedWindows: Sendable {
    private struct Window: Sendable {
        /// Its end is between these.
        var earliest: Int64
        var latest: Int64
        var granted: Int64
        var isReported = false
    }

    /// Answers of older windows come too late to be counted.
    private static let remembered = 4
    /// Redis tells ends in whole milliseconds, and a key is gone in the one after its end.
    private static let blur: Int64 = 2_000_000

    private let length: Int64
    private let clockDrift: Double
    /// The newest last.
    private var windows: [Window] = []
    /// Grants of which it is not certain in which window they were.
    private(set) var undecided = 0

    /// - Parameters:
    ///   - window: in nanoseconds.
    ///   - clockDrift: see `HistoryRules.clockDrift`.
    init(window: Int64, clockDrift: Double) {
        length = window
        self.clockDrift = clockDrift
    }

    /// - Parameter resetAfter: as it was answered, in ms.
    /// - Returns: what was certainly granted in that window, when that is above `limit` for the first time.
    mutating func add(_ cost: Int64, invoked: Instant, ended: Instant, resetAfter: Int64, limit: Int64) -> Int64? {
        let drift = Int64(Double(resetAfter) * clockDrift * 1e6)
        let earliest = invoked.advanced(byMilliseconds: resetAfter).nanoseconds - Self.blur - drift
        let latest = ended.advanced(byMilliseconds: resetAfter).nanoseconds + Self.blur + drift
        guard latest - earliest < length - Self.blur else {
            undecided += 1
            return nil
        }
        var mayBeKnown = false
        for place in windows.indices.reversed() {
            let span = max(latest, windows[place].latest) - min(earliest, windows[place].earliest)
            guard span < length - Self.blur else {
                if earliest <= windows[place].latest, windows[place].earliest <= latest { mayBeKnown = true }
                continue
            }
            let (low, high) = (max(earliest, windows[place].earliest), min(latest, windows[place].latest))
            (windows[place].earliest, windows[place].latest) = (min(low, high), max(low, high))
            windows[place].granted += cost
            guard windows[place].granted > limit, !windows[place].isReported else { return nil }
            windows[place].isReported = true
            return windows[place].granted
        }
        guard !mayBeKnown else {
            undecided += 1
            return nil
        }
        if windows.count == Self.remembered { windows.removeFirst() }
        windows.append(Window(earliest: earliest, latest: latest, granted: cost))
        return nil
    }

    mutating func removeAll() {
        windows.removeAll(keepingCapacity: true)
    }
}
