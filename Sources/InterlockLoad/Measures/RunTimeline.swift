internal import Histogram
internal import InterlockCore
internal import InterlockJudge

/// The results of each second, over all operations.
struct RunTimeline: Sendable {
    private let start: Instant
    private(set) var points: [TimelinePoint] = []
    private var current = TimelinePoint(second: 0)
    private var latency = LatencyRecorder()

    init(start: Instant) {
        self.start = start
    }

    /// Records that an operation was due.
    mutating func operationDue(at now: Instant) {
        advance(to: now)
        current.offered += 1
    }

    /// Records the end of an operation.
    mutating func operationEnded(_ ending: OperationEnding, latencyNanoseconds: Int64, at now: Instant) {
        advance(to: now)
        switch ending {
        case .done: current.done += 1
        case .refused: current.refused += 1
        case .failed, .unknown: current.failed += 1
        }
        if ending.isResponse { latency.record(nanoseconds: latencyNanoseconds) }
    }

    /// Adds a point for each second that is over at `now`.
    mutating func advance(to now: Instant) {
        let second = Int((now.nanoseconds - start.nanoseconds) / 1_000_000_000)
        while current.second < second { closeSecond() }
    }

    /// Adds the points up to `now`, with one for the current second unless it is empty.
    mutating func finish(at now: Instant) {
        advance(to: now)
        guard current.offered + current.done + current.refused + current.failed > 0 else { return }
        closeSecond()
    }

    private mutating func closeSecond() {
        current.p50 = latency.microseconds(atShare: 0.5)
        current.p99 = latency.microseconds(atShare: 0.99)
        current.max = latency.maximumMicroseconds
        points.append(current)
        if latency.count > 0 { latency.reset() }
        current = TimelinePoint(second: current.second + 1)
    }
}

/// Counts latencies in an HDR histogram of fixed size, with microsecond resolution and three significant digits, up to
/// ten minutes.
struct LatencyRecorder: Sendable {
    private static let highestMicroseconds: UInt64 = 600_000_000
    /// The resolution of the percentile curve: the number of points before the fraction above a percentile halves.
    private static let pointsPerHalving = 4

    private var histogram = Histogram<UInt64>(highestTrackableValue: Self.highestMicroseconds)

    var count: Int { Int(histogram.totalCount) }

    /// Records a latency, clamped to ten minutes.
    mutating func record(nanoseconds: Int64) {
        histogram.record(min(UInt64(max(0, nanoseconds)) / 1000, Self.highestMicroseconds))
    }

    mutating func reset() {
        histogram.reset()
    }

    /// Returns the latency in microseconds that this fraction (0 ... 1) of operations did not exceed; `nil` if nothing
    /// is recorded.
    func microseconds(atShare fraction: Double) -> Double? {
        count == 0 ? nil : Double(histogram.valueAtPercentile(fraction * 100))
    }

    var maximumMicroseconds: Double? { count == 0 ? nil : Double(histogram.maxRecorded) }

    var report: LatencyReport? {
        guard count > 0 else { return nil }
        func latency(_ percentile: Double) -> Double { Double(histogram.valueAtPercentile(percentile)) }
        return LatencyReport(
            count: count, mean: histogram.mean, p50: latency(50), p90: latency(90), p99: latency(99),
            p999: latency(99.9), max: Double(histogram.maxRecorded), percentiles: percentiles)
    }

    private var percentiles: [LatencyReport.Percentile] {
        var points: [LatencyReport.Percentile] = []
        for bucket in histogram.percentiles(ticksPerHalfDistance: Self.pointsPerHalving) {
            let fraction = bucket.percentileLevelIteratedTo / 100
            // A percentile plot by "nines" cannot show 100%.
            guard fraction < 1 else { break }
            points.append(LatencyReport.Percentile(fraction: fraction, microseconds: Double(bucket.value)))
        }
        return points
    }
}

/// The results so far of one kind of operation.
struct OperationTally: Sendable {
    var offered = 0
    var done = 0
    var refused: [String: Int] = [:]
    var failed: [String: Int] = [:]
    var unknown = 0
    var unsent = 0
    var latency = LatencyRecorder()

    /// Records the end of an operation.
    mutating func operationEnded(_ ending: OperationEnding, latencyNanoseconds: Int64) {
        switch ending {
        case .done: done += 1
        case .refused(let refusal): refused[refusal.name, default: 0] += 1
        case .failed(let code): failed[code, default: 0] += 1
        case .unknown: unknown += 1
        }
        if ending.isResponse { latency.record(nanoseconds: latencyNanoseconds) }
    }

    var refusedCount: Int { refused.values.reduce(0, +) }
    var failedCount: Int { failed.values.reduce(0, +) }

    func report(of kind: OperationKind) -> OperationReport {
        OperationReport(
            kind: kind, offered: offered, done: done, refused: refused, failed: failed, unknown: unknown, unsent: unsent,
            latency: latency.report)
    }
}
