/// The holders of resources over time: one row for each resource, one bar for each hold. Stacks overlapping bars.
struct SpanPlot: Plot {
    struct Span: Hashable, Sendable {
        let row: Int
        let beganSeconds: Double
        let endedSeconds: Double
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
        var laneCount: Int
        var height: Double { Double(laneCount) * (SpanPlot.laneHeight + 2) + 8 }
    }

    init(
        title: String, summary: String, side: String, rowNames: [String], columns: [String], spans: [Span], bands: [PlotBand]
    ) {
        let rows = rowNames.indices.map { row in
            Self.layOut(
                spans.filter { $0.row == row && $0.beganSeconds <= $0.endedSeconds },
                limit: Thinning.limit / max(rowNames.count, 1))
        }
        self.rows = rows
        let shownSpans = rows.flatMap { $0.spans.map(\.span) }.sorted { $0.beganSeconds < $1.beganSeconds }
        frame = PlotFrame(
            title: title, summary: summary,
            x: PlotAxis(
                label: PlotLabel.time.text, unit: .seconds,
                showing: shownSpans.flatMap { [$0.beganSeconds, $0.endedSeconds] },
                isExact: true),
            side: .rows(label: side, zip(rowNames, rows).map { .init(name: $0, height: $1.height) }),
            bands: bands)
        numbers = PlotNumbers(
            columns: columns, rows: shownSpans.prefix(PlotNumbers.limit).map(\.figures), total: spans.count,
            choice: "the first")
    }

    var isEmpty: Bool { rows.allSatisfy { $0.spans.allSatisfy { frame.x($0.span.beganSeconds) == nil } } }

    var drawing: Markup {
        var drawing = Markup()
        var top = frame.top + 4
        for row in rows {
            for (span, lane) in row.spans {
                guard let left = frame.x(span.beganSeconds), let right = frame.x(span.endedSeconds) else { continue }
                let y = top + Double(lane) * (Self.laneHeight + 2)
                drawing += """
                    <rect class="area \(span.tone.styleName)" x="\(left)" y="\(y)" \
                    width="\(max(right - left, 0.8))" height="\(Self.laneHeight)"><title>\(span.detail)</title></rect>
                    """
            }
            top += row.height
        }
        return drawing
    }

    /// Puts each span into the first lane that is free when the span begins, or into the last lane if all are occupied.
    /// Thinning prefers spans that overlap others, then longer ones.
    private static func layOut(_ spans: [Span], limit: Int) -> LaidOutRow {
        var laneEnds: [Double] = []
        let laidOut = spans.sorted { $0.beganSeconds < $1.beganSeconds }.map { span in
            let lane = laneEnds.firstIndex { $0 <= span.beganSeconds } ?? min(laneEnds.count, maximumLanes - 1)
            if lane == laneEnds.count {
                laneEnds.append(span.endedSeconds)
            } else {
                laneEnds[lane] = max(laneEnds[lane], span.endedSeconds)
            }
            return (span: span, lane: lane)
        }
        let thinnedSpans = Thinning.heaviest(laidOut, limit: max(limit, 1)) {
            $0.lane == $1.lane
                ? $0.span.endedSeconds - $0.span.beganSeconds < $1.span.endedSeconds - $1.span.beganSeconds
                : $0.lane < $1.lane
        }
        return LaidOutRow(spans: thinnedSpans, laneCount: max(laneEnds.count, 1))
    }

    private static let laneHeight = 13.0
    private static let maximumLanes = 4
}
