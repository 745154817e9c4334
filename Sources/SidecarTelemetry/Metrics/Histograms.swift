internal import CoreMetrics
package import InterlockCore
internal import NIOConcurrencyHelpers
internal import Synchronization

/// A value that was recorded, and the trace that it was recorded in.
struct Exemplar: Sendable {
    var trace: TraceContext.TraceID
    var nanoseconds: Int64
}

/// How many values fell below each bound. A read is not one instant's: `_count` is summed from the very buckets shown.
private struct Buckets: Sendable {
    /// An atomic of its own allocation, for arrays hold copyable elements only.
    final class Cell: Sendable {
        let count = Atomic<Int64>(0)
    }

    /// One more than there are bounds: the last takes what lies above them all.
    private let cells: [Cell]

    init(bounds: Int) {
        cells = (0...bounds).map { _ in Cell() }
    }

    func increment(_ index: Int, by amount: Int = 1) {
        cells[index].count.wrappingAdd(Int64(amount), ordering: .relaxed)
    }

    var isEmpty: Bool { cells.allSatisfy { $0.count.load(ordering: .relaxed) == 0 } }

    func appendSamples(
        name: String, labels: SeriesLabels, bounds: [Double], sum: Double, exemplars: [Int: Exemplar] = [:],
        to text: inout PrometheusText
    ) {
        var total: Int64 = 0
        for (place, (cell, bound)) in zip(cells, bounds + [.infinity]).enumerated() {
            total += cell.count.load(ordering: .relaxed)
            text.appendSample(
                name: name, suffix: "_bucket", labels: labels, bucket: bound, value: "\(total)", exemplar: exemplars[place])
        }
        text.appendSample(name: name, suffix: "_sum", labels: labels, value: PrometheusText.number(sum))
        text.appendSample(name: name, suffix: "_count", labels: labels, value: "\(total)")
    }
}

/// Durations, in seconds, from 50 µs to 10 s.
package final class TimeHistogram: TimerHandler, PrometheusSeries {
    private static let bounds: [Double] = [
        0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]

    /// One that was never recorded into is shown, as zeros.
    private let isShownEmpty: Bool
    /// `bounds` in nanoseconds; its own copy, so that recording touches no lazy global.
    private let nanoseconds = TimeHistogram.bounds.map { Int64(($0 * 1e9).rounded()) }
    private let buckets = Buckets(bounds: TimeHistogram.bounds.count)
    private let sum = Atomic<Int64>(0)
    /// The last one of each bucket that has any.
    private let exemplars = NIOLockedValueBox<[Int: Exemplar]>([:])

    init(isShownEmpty: Bool = true) {
        self.isShownEmpty = isShownEmpty
    }

    package func recordNanoseconds(_ duration: Int64) { recordNanoseconds(duration, count: 1) }

    /// Records a duration, and which trace it is an example of.
    package func recordNanoseconds(_ duration: Int64, trace: TraceContext?) {
        recordNanoseconds(duration, count: 1)
        if let trace { exemplify(by: trace, nanoseconds: duration) }
    }

    /// Names the trace of one that took so long; it is recorded by itself.
    package func exemplify(by trace: TraceContext, nanoseconds duration: Int64) {
        let duration = max(0, duration)
        exemplars.withLockedValue { $0[bucket(of: duration)] = Exemplar(trace: trace.traceID, nanoseconds: duration) }
    }

    private func bucket(of duration: Int64) -> Int {
        var index = 0
        while index < nanoseconds.count, nanoseconds[index] < duration { index += 1 }
        return index
    }

    /// Records the same duration so many times.
    package func recordNanoseconds(_ duration: Int64, count: Int) {
        let duration = max(0, duration)
        buckets.increment(bucket(of: duration), by: count)
        sum.wrappingAdd(duration &* Int64(count), ordering: .relaxed)
    }

    var sampleCount: Int { Self.bounds.count + 3 }
    var isShown: Bool { isShownEmpty || !buckets.isEmpty }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText) {
        buckets.appendSamples(
            name: name, labels: labels, bounds: Self.bounds, sum: Double(sum.load(ordering: .relaxed)) / 1e9,
            exemplars: exemplars.withLockedValue { $0 }, to: &text)
    }
}

/// Values of a recorder that aggregates, of whatever unit.
final class ValueHistogram: RecorderHandler, PrometheusSeries {
    private static let bounds: [Double] = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 100_000, 1_000_000]

    private let bounds = ValueHistogram.bounds
    private let buckets = Buckets(bounds: ValueHistogram.bounds.count)
    private let sum = AtomicReal()

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard value.isFinite else { return }
        var index = 0
        while index < bounds.count, bounds[index] < value { index += 1 }
        buckets.increment(index)
        sum.add(value)
    }

    var sampleCount: Int { Self.bounds.count + 3 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText) {
        buckets.appendSamples(name: name, labels: labels, bounds: Self.bounds, sum: sum.load(), to: &text)
    }
}
