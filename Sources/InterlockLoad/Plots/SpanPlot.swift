/// The holders of resources over time: one row per resource, one bar per hold. Overlapping bars are stacked.
struct SpanPlot: Plot {
    struct Span: Hashable, Sendable {
        let row: Int
        let began: Double
        let ended: Double
        let tone: PlotTone
        /// The text of the bar's tooltip.
        let detail: String
        /// The cells of the span's row in the table of numbers.
        let figures: [String]
    }

    let frame: PlotFrame
    let numbers: PlotNumbers
    private let rows: [LaidOutRow]

    private struct LaidOutRow {
        var spans: [(span: Span, lane: Int)]
        var lanes: Int
        var height: Double { Double(lanes) * (SpanPlot.laneHeight + 2) + 8 }
    }

    init(
        title: String, summary: String, side: String, rowNames: [String], columns: [String], spans: [Span], bands: [PlotBand]
    ) {
        let rows = rowNames.indices.map { row in
            Self.layOut(spans.filter { $0.row == row && $0.began <= $0.ended }, limit: Thinning.limit / max(rowNames.count, 1))
        }
        self.rows = rows
        let shown = rows.flatMap { $0.spans.map(\.span) }.sorted { $0.began < $1.began }
        frame = PlotFrame(
            title: title, summary: summary,
            x: PlotAxis(
                label: PlotLabel.time.text, unit: .seconds, showing: shown.flatMap { [$0.began, $0.ended] }, isExact: true),
            side: .rows(label: side, zip(rowNames, rows).map { .init(name: $0, height: $1.height) }),
            bands: bands)
        numbers = PlotNumbers(
            columns: columns, rows: shown.prefix(PlotNumbers.limit).map(\.figures), total: spans.count, choice: "the first")
    }

    var isEmpty: Bool { rows.allSatisfy { $0.spans.allSatisfy { frame.x($0.span.began) == nil } } }

    var drawing: Markup {
        var drawing = Markup()
        var top = frame.top + 4
        for row in rows {
            for (span, lane) in row.spans {
                guard let began = frame.x(span.began), let ended = frame.x(span.ended) else { continue }
                drawing += """
                    <rect class="area \(span.tone.styleName)" x="\(began)" y="\(top + Double(lane) * (Self.laneHeight + 2))" \
                    width="\(max(ended - began, 0.8))" height="\(Self.laneHeight)"><title>\(span.detail)</title></rect>
                    """
            }
            top += row.height
        }
        return drawing
    }

    /// Puts each span into the first lane that is free when it begins, or into the last if none is. Thinning prefers
    /// spans that overlap with others, then longer ones.
    private static func layOut(_ spans: [Span], limit: Int) -> LaidOutRow {
        var ends: [Double] = []
        let laidOut = spans.sorted { $0.began < $1.began }.map { span in
            let lane = ends.firstIndex { $0 <= span.began } ?? min(ends.count, maximumLanes - 1)
            if lane == ends.count { ends.append(span.ended) } else { ends[lane] = max(ends[lane], span.ended) }
            return (span: span, lane: lane)
        }
        let shown = Thinning.heaviest(laidOut, limit: max(limit, 1)) {
            $0.lane == $1.lane ? $0.span.ended - $0.span.began < $1.span.ended - $1.span.began : $0.lane < $1.lane
        }
        return LaidOutRow(spans: shown, lanes: max(ends.count, 1))
    }

    private static let laneHeight = 13.0
    private static let maximumLanes = 4
}
