internal import CoreMetrics
internal import Synchronization

/// A counter of whole numbers, such as calls.
final class IntegerCounter: CounterHandler, PrometheusSeries {
    private let value = Atomic<Int64>(0)

    var count: Int64 { value.load(ordering: .relaxed) }

    /// Increments the counter. Amounts below 1 are ignored, because a counter never decreases.
    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        value.wrappingAdd(amount, ordering: .relaxed)
    }

    func reset() {
        value.store(0, ordering: .relaxed)
    }

    var sampleCount: Int { 1 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText) {
        text.appendSample(name: name, labels: labels, value: "\(count)")
    }
}

/// A counter with fractions, such as seconds.
final class DoubleCounter: FloatingPointCounterHandler, PrometheusSeries {
    private let value = AtomicDouble()

    /// Increments the counter. Amounts that are not positive and finite are ignored, because a counter never decreases.
    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        value.add(amount)
    }

    func reset() {
        value.store(0)
    }

    var sampleCount: Int { 1 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText) {
        text.appendSample(name: name, labels: labels, value: PrometheusText.number(value.load()))
    }
}

/// A gauge that shows the last value of a meter, or of a recorder that does not aggregate.
final class PrometheusGauge: RecorderHandler, MeterHandler, PrometheusSeries {
    private let value = AtomicDouble()

    func record(_ value: Int64) { self.value.store(Double(value)) }
    func record(_ value: Double) { self.value.store(value) }
    func set(_ value: Int64) { self.value.store(Double(value)) }
    func set(_ value: Double) { self.value.store(value) }
    func increment(by amount: Double) { value.add(amount) }
    func decrement(by amount: Double) { value.add(-amount) }

    var sampleCount: Int { 1 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout PrometheusText) {
        text.appendSample(name: name, labels: labels, value: PrometheusText.number(value.load()))
    }
}

/// An atomic `Double`.
struct AtomicDouble: ~Copyable, Sendable {
    private let bits = Atomic<UInt64>(0)

    func load() -> Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func store(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

    func add(_ amount: Double) {
        var current = bits.load(ordering: .relaxed)
        while true {
            let sum = (Double(bitPattern: current) + amount).bitPattern
            let (exchanged, original) = bits.weakCompareExchange(expected: current, desired: sum, ordering: .relaxed)
            guard !exchanged else { return }
            current = original
        }
    }
}
