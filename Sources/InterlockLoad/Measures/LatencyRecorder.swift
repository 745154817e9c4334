internal import Histogram

/// Counts latencies in an HDR histogram: in microseconds, to three significant digits, up to ten minutes. Its size does not
/// depend on how many there are.
struct LatencyRecorder: Sendable {
    private static let longest: UInt64 = 600_000_000
    /// How finely the curve of percentiles is drawn: so many points each time what is left above halves.
    private static let pointsPerHalving = 4

    private var histogram = Histogram<UInt64>(highestTrackableValue: Self.longest)

    var count: Int { Int(histogram.totalCount) }

    /// What takes longer than ten minutes counts as ten minutes.
    mutating func record(nanoseconds: Int64) {
        histogram.record(min(UInt64(max(0, nanoseconds)) / 1000, Self.longest))
    }

    mutating func reset() {
        histogram.reset()
    }

    /// The latency that this share (0 ... 1) of all did not exceed, in microseconds; `nil`: there are none.
    func microseconds(atShare share: Double) -> Double? {
        count == 0 ? nil : Double(histogram.valueAtPercentile(share * 100))
    }

    var longestMicroseconds: Double? { count == 0 ? nil : Double(histogram.maxRecorded) }

    var report: LatencyReport? {
        guard count > 0 else { return nil }
        func at(_ percentile: Double) -> Double { Double(histogram.valueAtPercentile(percentile)) }
        return LatencyReport(
            count: count, mean: histogram.mean, p50: at(50), p90: at(90), p99: at(99), p999: at(99.9),
            max: Double(histogram.maxRecorded), percentiles: percentiles)
    }

    private var percentiles: [LatencyReport.Percentile] {
        var points: [LatencyReport.Percentile] = []
        for value in histogram.percentiles(ticksPerHalfDistance: Self.pointsPerHalving) {
            let share = value.percentileLevelIteratedTo / 100
            // A plot by "nines" has no place for all of them.
            guard share < 1 else { break }
            points.append(LatencyReport.Percentile(share: share, microseconds: Double(value.value)))
        }
        return points
    }
}
