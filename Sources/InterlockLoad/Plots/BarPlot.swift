/// Bars over time with their limits. A bar above its limit has the alarm color.
struct BarPlot: Plot {
    struct Bar: Hashable, Sendable {
        /// The start of the window, in seconds since the start of the run.
        let beganSeconds: Double
        let height: Double
        let limit: Double

        var exceedsLimit: Bool { height > limit }
    }

    let frame: PlotFrame
    let numbers: PlotNumbers
    private let bars: [Bar]

    /// Creates a plot whose axes cover all bars.
    /// - Parameter span: further times that the x axis must cover.
    init(
        title: String, summary: String, y: PlotLabel, barName: String, limitName: String, bars: [Bar], bands: [PlotBand],
        span: [Double]
    ) {
        // More bars than this would hide each other.
        let thinnedBars = Thinning.heaviest(
            bars.sorted { $0.beganSeconds < $1.beganSeconds }, limit: Int(PlotFrame.areaWidth / 2), by: Bar.isLighter)
        self.bars = thinnedBars
        frame = PlotFrame(
            title: title, summary: summary,
            x: PlotAxis(
                label: PlotLabel.time.text, unit: .seconds, showing: bars.map(\.beganSeconds) + span, isExact: true),
            side: .axis(PlotAxis(label: y.text, unit: y.unit, scale: y.scale, showing: bars.flatMap { [$0.height, $0.limit] })),
            legend: [
                .init(name: barName, tone: .series(0), mark: .area), .init(name: "over the limit", tone: .alarm, mark: .area),
                .init(name: limitName, tone: .reference, mark: .line),
            ],
            bands: bands)
        numbers = PlotNumbers(
            columns: ["window began", barName, limitName],
            rows: Thinning.heaviest(thinnedBars, limit: PlotNumbers.limit, by: Bar.isLighter).map {
                [Figure.moment(seconds: $0.beganSeconds), Figure.decimals($0.height, 0), Figure.decimals($0.limit, 0)]
            },
            total: bars.count)
    }

    var isEmpty: Bool { !bars.contains { frame.x($0.beganSeconds) != nil && frame.y($0.height) != nil } }

    var drawing: Markup {
        var drawing = Markup()
        var limitPath = Markup()
        let width = barWidth
        for bar in bars {
            guard let x = frame.x(bar.beganSeconds), let y = frame.y(bar.height) else { continue }
            let title =
                "\(Figure.moment(seconds: bar.beganSeconds)): \(Figure.short(bar.height)) of \(Figure.short(bar.limit))"
            drawing += """
                <rect class="area \(bar.tone.styleName)" x="\(x)" y="\(y)" width="\(max(width - 0.6, 0.8))" \
                height="\(frame.bottom - y)"><title>\(title)</title></rect>
                """
            guard let limitY = frame.y(bar.limit) else { continue }
            limitPath += limitPath.text.isEmpty ? "M\(x) \(limitY)H\(x + width)" : "H\(x)V\(limitY)H\(x + width)"
        }
        return "\(drawing)<path class=\"line reference\" d=\"\(limitPath)\"/>"
    }

    /// The width of a bar: the median gap between bars, because the plot does not know the length of a window.
    private var barWidth: Double {
        let positions = bars.compactMap { frame.x($0.beganSeconds) }
        let gaps = zip(positions.dropFirst(), positions).map { $0 - $1 }.filter { $0 > 0 }.sorted()
        return min(max(gaps.isEmpty ? 12 : gaps[gaps.count / 2], 1.4), 40)
    }
}

extension BarPlot.Bar {
    fileprivate var tone: PlotTone { exceedsLimit ? .alarm : .series(0) }

    /// Orders bars for thinning: bars over their limit weigh more than all others.
    fileprivate static func isLighter(_ left: Self, _ right: Self) -> Bool {
        left.exceedsLimit == right.exceedsLimit ? left.height < right.height : right.exceedsLimit
    }
}
