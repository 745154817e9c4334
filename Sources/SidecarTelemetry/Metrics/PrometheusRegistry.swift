package import CoreMetrics
internal import Glibc
import InterlockCore
internal import NIOConcurrencyHelpers

/// A swift-metrics backend for Prometheus.
///
/// Recording takes a few atomic additions: no lock, no lookup, no allocation. Only creating a metric and reading all
/// metrics take the registry's lock. A metric that would exceed `maximumSamples`, or whose name already has another
/// type, is not shown. It is counted in `interlock_metrics_dropped_total`.
package final class PrometheusRegistry: MetricsFactory, Sendable {
    /// The maximum number of samples of all metrics, except those of the process. A sample is a line with a value.
    package let maximumSamples: Int

    private let dropped = IntegerCounter()
    private let state = NIOLockedValueBox(State())

    private struct State {
        var families: [String: Family] = [:]
        var sampleCount = 0
    }

    private struct Family {
        let kind: MetricKind
        var series: [SeriesLabels: any PrometheusSeries] = [:]
    }

    package init(maximumSamples: Int = 10_000) {
        self.maximumSamples = maximumSamples
        let build = PrometheusGauge()
        build.set(Int64(1))
        state.withLockedValue { state in
            state.families["interlock_build_info"] = Family(
                kind: .gauge, series: [SeriesLabels([("version", SidecarVersion.current)]): build])
            state.families["interlock_metrics_dropped_total"] = Family(kind: .counter, series: [SeriesLabels([]): dropped])
        }
    }

    /// Returns all metrics as text, ordered by name, then by labels. O(n log n) in the number of series. Also reads
    /// `/proc`.
    package func exposition(as format: ExpositionFormat = .prometheus) -> String {
        var families = state.withLockedValue { $0.families }
        for (name, formerName) in MetricHelp.formerNames { families[formerName] = families[name] }
        var text = PrometheusText(format)
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            let shownSeries = family.series.filter(\.value.isShown)
            guard !shownSeries.isEmpty else { continue }
            text.appendHeader(name: name, kind: family.kind)
            for (labels, series) in shownSeries.sorted(by: { $0.key < $1.key }) {
                series.appendSamples(name: name, labels: labels, to: &text)
            }
            // The event loop may be waiting for this core, and would otherwise have to wait until the end of the time
            // slice.
            sched_yield()
        }
        ProcessMetrics.append(to: &text)
        text.appendEnd()
        return text.text
    }

    /// Returns a histogram that is shown only after it has recorded a duration, because many histograms stay empty.
    package func latencies(_ label: String, _ dimensions: [(String, String)]) -> TimeHistogram {
        series(label, dimensions, .histogram) { TimeHistogram(isShownEmpty: false) }
    }

    /// Returns the series with this name and these labels. Creates it if it does not exist.
    private func series<Series: PrometheusSeries>(
        _ label: String, _ dimensions: [(String, String)], _ kind: MetricKind, make: () -> Series
    ) -> Series {
        let name = PrometheusText.metricName(label)
        let labels = SeriesLabels(dimensions)
        return state.withLockedValue { state in
            let hasSameKind = state.families[name].map { $0.kind == kind } ?? true
            let existing = state.families[name]?.series[labels]
            if hasSameKind, let existing = existing as? Series { return existing }
            let newSeries = make()
            guard hasSameKind, existing == nil, state.sampleCount + newSeries.sampleCount <= maximumSamples else {
                dropped.increment(by: 1)
                return newSeries
            }
            state.families[name, default: Family(kind: kind)].series[labels] = newSeries
            state.sampleCount += newSeries.sampleCount
            return newSeries
        }
    }

    /// Removes a metric. O(n) in the number of series, without an index, because removals are rare.
    package func remove(_ handler: AnyObject) {
        state.withLockedValue { state in
            for (name, family) in state.families {
                guard let (labels, series) = family.series.first(where: { $0.value === handler }) else { continue }
                state.families[name]?.series[labels] = nil
                state.sampleCount -= series.sampleCount
                return
            }
        }
    }

    // MARK: MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions, .counter) { IntegerCounter() }
    }

    package func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(label, dimensions, .counter) { DoubleCounter() }
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions, .gauge) { PrometheusGauge() }
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        guard aggregate else { return series(label, dimensions, .gauge) { PrometheusGauge() } }
        return series(label, dimensions, .histogram) { ValueHistogram() }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions, .histogram) { TimeHistogram() }
    }

    package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }
}
