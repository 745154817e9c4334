internal import CoreMetrics
internal import Synchronization

/// Counts whole numbers.
final class IntegerCounter: CounterHandler, PrometheusSeries {
    private let value = Atomic<Int64>(0)

    var count: Int64 { value.load(ordering: .relaxed) }

    /// A counter never falls: less than 1 is ignored.
    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        value.wrappingAdd(amount, ordering: .relaxed)
    }

    func reset() {
        value.store(0, ordering: .relaxed)
    }

    var sampleCount: Int { 1 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout String) {
        PrometheusText.appendSample(name: name, labels: labels, value: "\(count)", to: &text)
    }
}

/// Counts fractions.
final class RealCounter: FloatingPointCounterHandler, PrometheusSeries {
    private let value = AtomicReal()

    /// A counter never falls: what is not above 0 is ignored.
    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        value.add(amount)
    }

    func reset() {
        value.store(0)
    }

    var sampleCount: Int { 1 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout String) {
        PrometheusText.appendSample(name: name, labels: labels, value: PrometheusText.number(value.load()), to: &text)
    }
}
