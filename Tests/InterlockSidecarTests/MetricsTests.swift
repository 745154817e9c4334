import CoreMetrics
import InterlockCore
import SidecarTelemetry
import Testing

@Suite("Metrics: the Prometheus backend")
struct MetricsTests {
    /// Returns the lines of the exposition, without those about the process.
    private func lines(_ registry: PrometheusRegistry) -> [String] {
        registry.exposition().split(separator: "\n").map(String.init).filter { !$0.contains("process_") }
    }

    @Test("Counters, gauges and their types are written in a stable order")
    func countersGaugesAndTypesAreWrittenInStableOrder() {
        let registry = PrometheusRegistry()
        let second = Counter(label: "b_total", dimensions: [("service", "y")], factory: registry)
        let first = Counter(label: "b_total", dimensions: [("service", "x")], factory: registry)
        let gauge = Gauge(label: "a", factory: registry)
        second.increment(by: 2)
        first.increment()
        gauge.record(1.5)
        FloatingPointCounter(label: "c_total", factory: registry).increment(by: 0.25)
        #expect(
            lines(registry) == [
                "# HELP a No description.", "# TYPE a gauge", "a 1.5",
                "# HELP b_total No description.", "# TYPE b_total counter",
                #"b_total{service="x"} 1"#, #"b_total{service="y"} 2"#,
                "# HELP c_total No description.", "# TYPE c_total counter", "c_total 0.25",
                "# HELP interlock_build_info Always 1; its label is the version of Interlock.",
                "# TYPE interlock_build_info gauge",
                #"interlock_build_info{version="\#(SidecarVersion.current)"} 1"#,
                "# HELP interlock_metrics_dropped_total Metrics dropped because there are too many, or because another type has the name.",
                "# TYPE interlock_metrics_dropped_total counter", "interlock_metrics_dropped_total 0",
            ])
        #expect(lines(registry) == lines(registry))
    }

    @Test("A timer is a histogram in seconds with cumulative buckets")
    func timerIsHistogramInSecondsWithCumulativeBuckets() {
        let registry = PrometheusRegistry()
        let timer = Timer(label: "t_seconds", dimensions: [("a", "b")], factory: registry)
        for nanoseconds: Int64 in [0, 50_000, 50_001, 1_000_000_000, 60_000_000_000] { timer.recordNanoseconds(nanoseconds) }
        let lines = lines(registry)
        #expect(lines.contains("# TYPE t_seconds histogram"))
        #expect(lines.contains(#"t_seconds_bucket{a="b",le="0.00005"} 2"#))
        #expect(lines.contains(#"t_seconds_bucket{a="b",le="0.0001"} 3"#))
        #expect(lines.contains(#"t_seconds_bucket{a="b",le="1"} 4"#))
        #expect(lines.contains(#"t_seconds_bucket{a="b",le="10"} 4"#))
        #expect(lines.contains(#"t_seconds_bucket{a="b",le="+Inf"} 5"#))
        #expect(lines.contains(#"t_seconds_count{a="b"} 5"#))
        #expect(lines.contains { $0.hasPrefix(#"t_seconds_sum{a="b"} 61.0001"#) })
        #expect(!lines.contains { $0.contains("e-") })
    }

    @Test("A recorder that aggregates is a histogram, and a meter is a gauge")
    func recorderAndMeter() {
        let registry = PrometheusRegistry()
        Recorder(label: "sizes", factory: registry).record(30)
        let meter = Meter(label: "level", factory: registry)
        meter.set(5)
        meter.increment(by: 2)
        meter.decrement(by: 0.5)
        let lines = lines(registry)
        #expect(lines.contains(#"sizes_bucket{le="25"} 0"#))
        #expect(lines.contains(#"sizes_bucket{le="50"} 1"#))
        #expect(lines.contains("level 6.5"))
    }

    @Test("Names are made valid and values escaped")
    func namesAreMadeValidAndValuesEscaped() {
        let registry = PrometheusRegistry()
        Counter(label: "9 über-all", dimensions: [("a-b", "x\"y\\z\nü"), ("le", "1")], factory: registry).increment()
        #expect(lines(registry).contains(#"_9__ber_all{a_b="x\"y\\z\nü",exported_le="1"} 1"#))
    }

    @Test("A renamed metric is shown under its former name, too")
    func formerName() {
        let registry = PrometheusRegistry()
        Gauge(label: "interlock_permits_active", factory: registry).record(3)
        let lines = lines(registry)
        #expect(lines.contains("interlock_permits_active 3"))
        #expect(lines.contains("interlock_permits_under_way 3"))
        #expect(lines.contains("# HELP interlock_permits_under_way Deprecated: use interlock_permits_active."))
    }

    @Test("The same metric created twice is one metric")
    func sameMetricCreatedTwiceIsOneMetric() {
        let registry = PrometheusRegistry()
        for _ in 0..<2 { Counter(label: "a_total", dimensions: [("x", "1")], factory: registry).increment() }
        #expect(lines(registry).contains(#"a_total{x="1"} 2"#))
    }

    @Test("Metrics beyond the limit, or with a name of another type, are counted as dropped")
    func excessMetricsAreCountedAsDropped() {
        let registry = PrometheusRegistry(maximumSamples: 21)
        let timer = Timer(label: "t", factory: registry)
        Counter(label: "a_total", factory: registry).increment()
        let dropped = Counter(label: "b_total", factory: registry)
        dropped.increment()
        Gauge(label: "a_total", factory: registry).record(1)
        var lines = lines(registry)
        #expect(lines.contains("a_total 1"))
        #expect(!lines.contains { $0.hasPrefix("b_total") })
        #expect(lines.contains("interlock_metrics_dropped_total 2"))
        timer.destroy()
        Counter(label: "b_total", factory: registry).increment()
        lines = self.lines(registry)
        #expect(lines.contains("b_total 1"))
        #expect(!lines.contains { $0.hasPrefix("t_") })
    }

    @Test("OpenMetrics families omit their suffix, bucket bounds have a decimal point, and the page ends with # EOF")
    func openMetrics() {
        let registry = PrometheusRegistry()
        Counter(label: "a_total", dimensions: [("x", "1")], factory: registry).increment()
        Counter(label: "odd", factory: registry).increment()
        Timer(label: "t_seconds", factory: registry).recordNanoseconds(1)
        let lines = registry.exposition(as: .openMetrics).split(separator: "\n").map(String.init)
        #expect(lines.contains("# TYPE a counter"))
        #expect(lines.contains(#"a_total{x="1"} 1"#))
        #expect(lines.contains("# TYPE odd unknown"))
        #expect(lines.contains("# TYPE interlock_build info"))
        #expect(lines.contains("# TYPE process_cpu_seconds counter"))
        #expect(lines.contains(#"t_seconds_bucket{le="0.00005"} 1"#))
        #expect(lines.contains(#"t_seconds_bucket{le="1.0"} 1"#))
        #expect(lines.contains(#"t_seconds_bucket{le="+Inf"} 1"#))
        #expect(lines.last == "# EOF")
    }

    @Test("Records from many tasks are all counted")
    func recordsFromManyTasksAreCounted() async {
        let registry = PrometheusRegistry()
        let counter = Counter(label: "a_total", factory: registry)
        let real = FloatingPointCounter(label: "b_total", factory: registry)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<5000 {
                        counter.increment()
                        real.increment(by: 0.5)
                    }
                }
            }
        }
        #expect(lines(registry).contains("a_total 40000"))
        #expect(lines(registry).contains("b_total 20000"))
    }

    @Test("The process reports its own metrics")
    func processReportsItsOwnMetrics() throws {
        let page = PrometheusRegistry().exposition()
        func value(_ name: String) -> Double? {
            page.split(separator: "\n").first { $0.hasPrefix("\(name) ") }.flatMap { Double($0.dropFirst(name.count + 1)) }
        }
        #expect(try #require(value("process_resident_memory_bytes")) > 1_000_000)
        #expect(try #require(value("process_open_fds")) >= 3)
        #expect(try #require(value("process_max_fds")) >= 3)
        #expect(value("interlock_build_info{version=\"\(SidecarVersion.current)\"}") == 1)
        #expect(try #require(value("process_start_time_seconds")) > 1_600_000_000)
        #expect(try #require(value("process_cpu_seconds_total")) >= 0)
        #expect(page.contains("# TYPE process_cpu_seconds_total counter\n"))
    }
}
