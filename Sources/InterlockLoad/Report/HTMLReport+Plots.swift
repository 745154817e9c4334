internal import InterlockJudge

extension HTMLReport {
    var plots: Markup {
        """
        \(HTMLPage.figure(latencies, id: "latency"))\
        \(HTMLPage.figure(throughput, id: "throughput"))\
        \(HTMLPage.figure(percentiles, id: "percentiles"))\
        \(HTMLPage.figure(ownership, id: "ownership"))\
        \(windows.enumerated().map { HTMLPage.figure($1, id: "windows\($0)") })
        """
    }

    private func line(
        _ name: String, _ tone: PlotTone, isDashed: Bool = false, _ value: (TimelinePoint) -> Double
    ) -> PlotLine {
        PlotLine(
            name: name, tone: tone, isDashed: isDashed,
            points: report.timeline.map { .init(x: Double($0.second), y: value($0)) })
    }

    private var latencies: LinePlot {
        LinePlot(
            title: "Latency over time", summary: "All operations of each second, measured from the scheduled time.",
            x: .time, y: PlotLabel("latency", unit: .microseconds, scale: .logarithmic),
            lines: [
                line("p50", .series(0)) { $0.p50 ?? .nan }, line("p99", .series(1)) { $0.p99 ?? .nan },
                line("max", .reference, isDashed: true) { $0.max ?? .nan },
            ], bands: bands, xValues: span)
    }

    private var throughput: LinePlot {
        LinePlot(
            title: "Throughput", summary: "Operations per second, all kinds together.",
            x: .time, y: PlotLabel("operations per second", unit: .number),
            lines: [
                line("offered", .reference, isDashed: true) { Double($0.offered) }, line("done", .series(0)) { Double($0.done) },
                line("refused", .series(1)) { Double($0.refused) }, line("failed or unknown", .alarm) { Double($0.failed) },
            ], bands: bands, xValues: span)
    }

    private var percentiles: LinePlot {
        LinePlot(
            title: "Latency by percentile", summary: "The latency that this percentage of the operations did not exceed.",
            x: PlotLabel("percentage of operations", unit: .percentile, scale: .logarithmic),
            y: PlotLabel("latency", unit: .microseconds, scale: .logarithmic),
            lines: report.operations.enumerated().compactMap { index, operation in
                operation.latency.map { latency in
                    PlotLine(
                        name: operation.kind.rawValue, tone: .series(index),
                        points: latency.percentiles.map { .init(x: 1 / (1 - $0.fraction), y: $0.microseconds) })
                }
            })
    }

    private var ownership: SpanPlot {
        let locks = Set(report.ownership.map(\.lock)).sorted().prefix(Self.maximumLocks)
        let rows = Dictionary(uniqueKeysWithValues: zip(locks, locks.indices))
        let spans = report.ownership.compactMap { span -> SpanPlot.Span? in
            guard let row = rows[span.lock] else { return nil }
            let moments = [Figure.moment(seconds: span.beganSeconds), Figure.moment(seconds: span.endedSeconds)]
            return SpanPlot.Span(
                row: row, beganSeconds: span.beganSeconds, endedSeconds: span.endedSeconds, tone: .series(span.client),
                detail: "client \(span.client), sidecar \(span.sidecar), fence \(span.fence), \(moments[0]) – \(moments[1])",
                figures: [
                    "lock \(span.lock)", "\(span.client)", "\(span.sidecar)", "\(span.fence)", moments[0], moments[1],
                ])
        }
        return SpanPlot(
            title: "Lock holders",
            summary: "One color per client, repeated after \(PlotTone.count) clients; overlapping leases are stacked.",
            side: "lock", rowNames: locks.map { "\($0)" },
            columns: ["lock", "client", "sidecar", "fence", "from", "to"], spans: spans, bands: bands)
    }

    private var windows: [BarPlot] {
        let services = Dictionary(grouping: report.windows, by: \.service).sorted { $0.key < $1.key }.prefix(Self.maximumServices)
        let titles = services.isEmpty ? [("Limits", [])] : services.map { ("Limit of \($0.key)", $0.value) }
        return titles.map { title, windows in
            BarPlot(
                title: title,
                summary:
                    "Grants in each window, by the time of the answers. Broken guarantees are listed under Violations.",
                y: PlotLabel("grants per window", unit: .number), barName: "granted", limitName: "limit",
                bars: windows.map {
                    .init(beganSeconds: $0.beganSeconds, height: Double($0.granted), limit: Double($0.limit))
                },
                bands: bands, span: span)
        }
    }

    private var bands: [PlotBand] {
        report.faults.map { fault in
            let name = fault.sidecar.map { "\(fault.kind.rawValue) \($0)" } ?? fault.kind.rawValue
            let recoveryText = fault.recoveredAfterSeconds.map { ", recovered after \(Figure.span(seconds: $0))" } ?? ""
            let moments =
                "\(Figure.moment(seconds: fault.beganSeconds)) – \(Figure.moment(seconds: fault.endedSeconds))"
            return PlotBand(
                name: name,
                detail: "fault \(fault.number): \(fault.kind.rawValue), \(fault.target), \(moments)\(recoveryText)",
                beganSeconds: fault.beganSeconds, endedSeconds: fault.endedSeconds)
        }
    }

    /// The start and the end of the run, which the time axis of every plot covers, so that plots are comparable.
    private var span: [Double] { [0, report.durationSeconds] }

    private static let maximumLocks = 16
    private static let maximumServices = 8
}
