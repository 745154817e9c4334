package import CoreMetrics
internal import Glibc
import InterlockCore
internal import NIOConcurrencyHelpers

/// A swift-metrics backend that is read by Prometheus.
///
/// Recording is a few atomic additions: no lock, no look-up, no allocation. Only making a metric and reading them all take
/// the registry's lock. Series are bounded: a metric that comes when `maximumSamples` are there, or under a name that
/// is of another type, records into nothing and is counted in `interlock_metrics_dropped_total`.
package final class PrometheusRegistry: MetricsFactory, Sendable {
    /// The most lines with a value that all metrics together may come to, those of the process apart.
    package let maximumSamples: Int

    private let dropped = IntegerCounter()
    private let state = NIOLockedValueBox(State())

    private struct State {
        var families: [String: Family] = [:]
        var samples = 0
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

    /// All metrics as text, in the order of their names, then of their labels. O(n log n) in series; also reads `/proc`.
    package func exposition(as format: ExpositionFormat = .prometheus) -> String {
        let families = state.withLockedValue { $0.families }
        var text = PrometheusText(format)
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            let shown = family.series.filter(\.value.isShown)
            guard !shown.isEmpty else { continue }
            text.appendHeader(name: name, kind: family.kind)
            for (labels, series) in shown.sorted(by: { $0.key < $1.key }) {
                series.appendSamples(name: name, labels: labels, to: &text)
            }
            // The event loop may wait for this core, and would wait for the rest of a time slice, which can be all of the page.
            sched_yield()
        }
        ProcessMetrics.append(to: &text)
        text.appendEnd()
        return text.text
    }

    /// A histogram of durations that is shown once there is one: there are many, and most are of what is never asked for.
    package func latencies(_ label: String, _ dimensions: [(String, String)]) -> TimeHistogram {
        series(label, dimensions, .histogram) { TimeHistogram(isShownEmpty: false) }
    }

    /// The series with this name and these labels: the one there is, else a new one.
    private func series<Series: PrometheusSeries>(
        _ label: String, _ dimensions: [(String, String)], _ kind: MetricKind, make: () -> Series
    ) -> Series {
        let name = PrometheusText.metricName(label)
        let labels = SeriesLabels(dimensions)
        return state.withLockedValue { state in
            let isOfKind = state.families[name].map { $0.kind == kind } ?? true
            let known = state.families[name]?.series[labels]
            if isOfKind, let known = known as? Series { return known }
            let made = make()
            guard isOfKind, known == nil, state.samples + made.sampleCount <= maximumSamples else {
                dropped.increment(by: 1)
                return made
            }
            state.families[name, default: Family(kind: kind)].series[labels] = made
            state.samples += made.sampleCount
            return made
        }
    }

    /// O(n) in series: metrics are seldom destroyed.
    package func remove(_ handler: AnyObject) {
        state.withLockedValue { state in
            for (name, family) in state.families {
                guard let (labels, series) = family.series.first(where: { $0.value === handler }) else { continue }
                state.families[name]?.series[labels] = nil
                state.samples -= series.sampleCount
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
        series(label, dimensions, .counter) { RealCounter() }
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
