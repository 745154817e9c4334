internal import CoreMetrics

/// The last value: of a meter, and of a recorder that does not aggregate.
final class PrometheusGauge: RecorderHandler, MeterHandler, PrometheusSeries {
    private let value = AtomicReal()

    func record(_ value: Int64) { self.value.store(Double(value)) }
    func record(_ value: Double) { self.value.store(value) }
    func set(_ value: Int64) { self.value.store(Double(value)) }
    func set(_ value: Double) { self.value.store(value) }
    func increment(by amount: Double) { value.add(amount) }
    func decrement(by amount: Double) { value.add(-amount) }

    var sampleCount: Int { 1 }

    func appendSamples(name: String, labels: SeriesLabels, to text: inout String) {
        PrometheusText.appendSample(name: name, labels: labels, value: PrometheusText.number(value.load()), to: &text)
    }
}
