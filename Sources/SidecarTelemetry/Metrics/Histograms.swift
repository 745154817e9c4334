internal import CoreMetrics
package import InterlockCore
internal import NIOConcurrencyHelpers
internal import Synchronization

/// A recorded duration, and the trace of the call that took it.
struct Exemplar: Sendable {
    var trace: TraceContext.TraceID
    var nanoseconds: Int64
}

/// The number of values in each bucket. Reading all buckets is not atomic, so `_count` is the sum of the numbers read.
private struct Buckets: Sendable {
    /// An atomic counter in its own allocation, because arrays hold only copyable elements.
    final class Cell: Sendable {
        let count = Atomic<Int64>(0)
    }

    /// One cell per bound, and a last one for values above all bounds.
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
        for (index, (cell, bound)) in zip(cells, bounds + [.infinity]).enumerated() {
            total += cell.count.load(ordering: .relaxed)
            text.appendSample(
                name: name, suffix: "_bucket", labels: labels, bucket: bound, value: "\(total)", exemplar: exemplars[index])
        }
        text.appendSample(name: name, suffix: "_sum", labels: labels, value: PrometheusText.number(sum))
        text.appendSample(name: name, suffix: "_count", labels: labels, value: "\(total)")
    }
}

/// A histogram of durations. The bounds of its buckets range from 50 µs to 10 s.
package final class TimeHistogram: TimerHandler, PrometheusSeries {
    private static let bounds: [Double] = [
        0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]

    /// Whether the histogram is shown before anything is recorded.
    private let isShownEmpty: Bool
    /// The bounds in nanoseconds, copied so that recording does not access a lazily initialized global.
    private let boundsNanoseconds = TimeHistogram.bounds.map { Int64(($0 * 1e9).rounded()) }
    private let buckets = Buckets(bounds: TimeHistogram.bounds.count)
    private let sumNanoseconds = Atomic<Int64>(0)
    /// The latest exemplar of each bucket that has one.
    private let exemplars = NIOLockedValueBox<[Int: Exemplar]>([:])

    init(isShownEmpty: Bool = true) {
        self.isShownEmpty = isShownEmpty
    }

    package func recordNanoseconds(_ duration: Int64) { recordNanoseconds(duration, count: 1) }

    /// Records a duration. If there is a trace, makes it the exemplar of the duration's bucket.
    package func recordNanoseconds(_ duration: Int64, trace: TraceContext?) {
        recordNanoseconds(duration, count: 1)
        if let trace { addExemplar(by: trace, nanoseconds: duration) }
    }

    /// Makes a trace the exemplar of its duration's bucket. The duration itself must be recorded separately.
    package func addExemplar(by trace: TraceContext, nanoseconds duration: Int64) {
        let duration = max(0, duration)
        exemplars.withLockedValue {
            $0[bucketIndex(of: duration)] = Exemplar(trace: trace.traceID, nanoseconds: duration)
        }
    }

    private func bucketIndex(of durationNanoseconds: Int64) -> Int {
        var index = 0
        while index < boundsNanoseconds.count, boundsNanoseconds[index] < durationNanoseconds { index += 1 }
        return index
    }

    /// Records the same duration `count` times.
    package func recordNanoseconds(_ duration: Int64, count: Int) {
        let duration = max(0, duration)
        buckets.increment(bucketIndex(of: duration), by: count)
        sumNanoseconds.wrappingAdd(duration &* Int64(count), ordering: .relaxed)
    }

    var sampleCount: Int { Self.bounds.count + 3 }
    var isShown: Bool { isShownEmpty || !buckets.isEmpty }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText) {
        buckets.appendSamples(
            name: name, labels: labels, bounds: Self.bounds, sum: Double(sumNanoseconds.load(ordering: .relaxed)) / 1e9,
            exemplars: exemplars.withLockedValue { $0 }, to: &text)
    }
}

/// A histogram of the values of a recorder that aggregates, in any unit.
final class ValueHistogram: RecorderHandler, PrometheusSeries {
    private static let bounds: [Double] = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 100_000, 1_000_000]

    private let bounds = ValueHistogram.bounds
    private let buckets = Buckets(bounds: ValueHistogram.bounds.count)
    private let sum = AtomicDouble()

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
