/// Bars over time with their limits. Bars above the limit have the alarm color.
struct BarPlot: Plot {
    struct Bar: Hashable, Sendable {
        let began: Double
        let height: Double
        let bound: Double

        var exceedsBound: Bool { height > bound }
    }

    let frame: PlotFrame
    let numbers: PlotNumbers
    private let bars: [Bar]

    /// - Parameter span: times that the axis must cover, whether or not there are bars.
    init(
        title: String, summary: String, y: PlotLabel, barName: String, boundName: String, bars: [Bar], bands: [PlotBand],
        span: [Double]
    ) {
        // More bars than this would hide each other.
        let shown = Thinning.heaviest(
            bars.sorted { $0.began < $1.began }, limit: Int(PlotFrame.areaWidth / 2), by: Bar.isLighter)
        self.bars = shown
        frame = PlotFrame(
            title: title, summary: summary,
            x: PlotAxis(
                label: PlotLabel.time.text, unit: .seconds, showing: bars.map(\.began) + span, isExact: true),
            side: .axis(PlotAxis(label: y.text, unit: y.unit, scale: y.scale, showing: bars.flatMap { [$0.height, $0.bound] })),
            legend: [
                .init(name: barName, tone: .series(0), mark: .area), .init(name: "over the limit", tone: .alarm, mark: .area),
                .init(name: boundName, tone: .reference, mark: .line),
            ],
            bands: bands)
        numbers = PlotNumbers(
            columns: ["window began", barName, boundName],
            rows: Thinning.heaviest(shown, limit: PlotNumbers.limit, by: Bar.isLighter).map {
                [Figure.moment(seconds: $0.began), Figure.decimals($0.height, 0), Figure.decimals($0.bound, 0)]
            },
            total: bars.count)
    }

    var isEmpty: Bool { !bars.contains { frame.x($0.began) != nil && frame.y($0.height) != nil } }

    var drawing: Markup {
        var drawing = Markup()
        var bound = Markup()
        let width = barWidth
        for bar in bars {
            guard let x = frame.x(bar.began), let y = frame.y(bar.height) else { continue }
            let words = "\(Figure.moment(seconds: bar.began)): \(Figure.short(bar.height)) of \(Figure.short(bar.bound))"
            drawing += """
                <rect class="area \(bar.tone.styleName)" x="\(x)" y="\(y)" width="\(max(width - 0.6, 0.8))" \
                height="\(frame.bottom - y)"><title>\(words)</title></rect>
                """
            guard let level = frame.y(bar.bound) else { continue }
            bound += bound.text.isEmpty ? "M\(x) \(level)H\(x + width)" : "H\(x)V\(level)H\(x + width)"
        }
        return "\(drawing)<path class=\"line reference\" d=\"\(bound)\"/>"
    }

    /// The width of a bar: the median gap between bars, because the length of a window is not known here.
    private var barWidth: Double {
        let positions = bars.compactMap { frame.x($0.began) }
        let gaps = zip(positions.dropFirst(), positions).map { $0 - $1 }.filter { $0 > 0 }.sorted()
        return min(max(gaps.isEmpty ? 12 : gaps[gaps.count / 2], 1.4), 40)
    }
}

extension BarPlot.Bar {
    fileprivate var tone: PlotTone { exceedsBound ? .alarm : .series(0) }

    /// Orders bars for thinning: bars over their limit weigh more than all others.
    fileprivate static func isLighter(_ left: Self, _ right: Self) -> Bool {
        left.exceedsBound == right.exceedsBound ? left.height < right.height : right.exceedsBound
    }
}
