/// The frame around a plot's contents: axes, ticks, legend and bands.
struct PlotFrame: Hashable, Sendable {
    /// An entry of the legend.
    struct LegendEntry: Hashable, Sendable {
        enum Mark: Hashable, Sendable {
            case line, dashes, area
        }

        let name: String
        let tone: PlotTone
        let mark: Mark
    }

    /// The contents of the left side of the plot.
    enum Side: Hashable, Sendable {
        case axis(PlotAxis)
        /// Named rows, from top to bottom.
        case rows(label: String, [Row])
    }

    struct Row: Hashable, Sendable {
        let name: String
        let height: Double
    }

    static let width = 680.0
    static let left = 62.0
    static let areaWidth = width - left - 28

    let title: String
    /// One sentence that describes the plot.
    let summary: String
    let x: PlotAxis
    let side: Side
    /// The entries of the legend, in rows that fit the width of the plot.
    let legendRows: [[LegendEntry]]
    /// The bands that overlap the domain of the x axis.
    let bands: [PlotBand]
    /// The y coordinate of the top of the area, in pixels of the drawing. The legend, the label of the left side and
    /// the names of bands are above it.
    let top: Double

    init(title: String, summary: String, x: PlotAxis, side: Side, legend: [LegendEntry] = [], bands: [PlotBand] = []) {
        self.title = title
        self.summary = summary
        self.x = x
        self.side = side
        self.legendRows = Self.rows(of: legend)
        self.bands = bands.filter {
            x.position(of: $0.beganSeconds) != nil && x.position(of: $0.endedSeconds) != nil
                && $0.endedSeconds >= x.domain.lowerBound
                && $0.beganSeconds <= x.domain.upperBound
        }
        top = 28 + Double(legendRows.count) * 18 + (self.bands.isEmpty ? 0 : Double(Self.bandRows) * Self.bandRowHeight)
    }

    // MARK: Sizes, in pixels of the drawing

    var areaHeight: Double {
        switch side {
        case .axis: 220
        case .rows(_, let rows): max(rows.reduce(0) { $0 + $1.height }, 60)
        }
    }

    var height: Double { top + areaHeight + 44 }

    /// The y coordinate of the baseline of the left side's label.
    private var labelBaseline: Double { 16 + Double(legendRows.count) * 18 }

    // MARK: Coordinates

    /// Returns the x coordinate of a value; `nil` if the axis cannot show it.
    func x(_ value: Double) -> Double? { x.position(of: value).map { Self.left + $0 * Self.areaWidth } }

    /// Returns the y coordinate of a value; `nil` if the axis cannot show it or the plot has rows.
    func y(_ value: Double) -> Double? {
        guard case .axis(let axis) = side else { return nil }
        return axis.position(of: value).map { bottom - $0 * areaHeight }
    }

    var bottom: Double { top + areaHeight }

    // MARK: Drawing

    var emptyNotice: Markup {
        "<text class=\"empty\" x=\"\(Self.left + Self.areaWidth / 2)\" y=\"\(top + areaHeight / 2)\">nothing to show</text>"
    }

    var background: Markup { "\(shading)\(sideTicks)\(xTicks)" }

    private var xTicks: Markup {
        var ticks: Markup = """
            <path class="axis" d="M\(Self.left) \(bottom)h\(Self.areaWidth)"/>\
            <text class="label" x="\(Self.left + Self.areaWidth)" y="\(bottom + 36)" text-anchor="end">\(x.label)</text>
            """
        for tick in x.ticks {
            guard let tickX = x(tick) else { continue }
            ticks += """
                <path class="axis" d="M\(tickX) \(bottom)v4"/>\
                <text x="\(tickX)" y="\(bottom + 18)" text-anchor="middle">\(x.unit.tick(tick))</text>
                """
        }
        return ticks
    }

    private var sideTicks: Markup {
        func tick(lineAt y: Double, baseline: Double, label: String) -> Markup {
            """
            <path class="grid" d="M\(Self.left) \(y)h\(Self.areaWidth)"/>\
            <text x="\(Self.left - 8)" y="\(baseline)" text-anchor="end">\(label)</text>
            """
        }
        switch side {
        case .axis(let axis):
            var ticks: Markup = "<text class=\"label\" x=\"4\" y=\"\(labelBaseline)\">\(axis.label)</text>"
            for value in axis.ticks {
                guard let tickY = y(value) else { continue }
                ticks += tick(lineAt: tickY, baseline: tickY + 4, label: axis.unit.tick(value))
            }
            return ticks
        case .rows(let label, let rows):
            var ticks: Markup = "<text class=\"label\" x=\"4\" y=\"\(labelBaseline)\">\(label)</text>"
            var rowTop = top
            for row in rows {
                ticks += tick(lineAt: rowTop, baseline: rowTop + row.height / 2 + 4, label: row.name)
                rowTop += row.height
            }
            return ticks
        }
    }
}

extension PlotFrame {
    /// The maximum number of rows for the names of bands above the area.
    static let bandRows = 2
    static let bandRowHeight = 12.0

    /// The drawing of the bands, with as many names as fit.
    var shading: Markup {
        var shading = Markup()
        var rowEnds = [Double](repeating: -.infinity, count: Self.bandRows)
        for band in Thinning.heaviest(
            bands, by: { $0.endedSeconds - $0.beganSeconds < $1.endedSeconds - $1.beganSeconds })
        {
            guard let left = x(band.beganSeconds), let right = x(band.endedSeconds) else { continue }
            shading += """
                <rect class="band" x="\(left)" y="\(top)" width="\(max(right - left, 1.5))" height="\(areaHeight)">\
                <title>\(band.detail)</title></rect>
                """
            let nameEnd = left + TextWidth.pixels(of: band.name, size: 10)
            guard nameEnd <= Self.width, let row = rowEnds.firstIndex(where: { $0 < left }) else { continue }
            rowEnds[row] = nameEnd + 4
            let baseline = top - 4 - Double(Self.bandRows - 1 - row) * Self.bandRowHeight
            shading += "<text class=\"bandname\" x=\"\(left)\" y=\"\(baseline)\">\(band.name)</text>"
        }
        return shading
    }
}

extension PlotFrame {
    static func rows(of legend: [LegendEntry]) -> [[LegendEntry]] {
        var rows: [[LegendEntry]] = []
        var rowEnd = Double.infinity
        for entry in legend {
            let width = legendWidth(entry)
            if rowEnd + width > Self.width - 12 {
                rows.append([])
                rowEnd = 4
            }
            rows[rows.count - 1].append(entry)
            rowEnd += width
        }
        return rows
    }

    var legendRow: Markup {
        var markup = Markup()
        for (row, entries) in legendRows.enumerated() {
            var x = 4.0
            let middle = 10 + Double(row) * 18
            for entry in entries {
                let swatch: Markup =
                    switch entry.mark {
                    case .line, .dashes:
                        """
                        <path class="line \(entry.tone.styleName)\(entry.mark == .dashes ? " dashed" : "")" \
                        d="M\(x) \(middle)h18"/>
                        """
                    case .area:
                        "<rect class=\"area \(entry.tone.styleName)\" x=\"\(x)\" y=\"\(middle - 5)\" width=\"18\" height=\"10\"/>"
                    }
                markup += "\(swatch)<text x=\"\(x + 23)\" y=\"\(middle + 4)\">\(entry.name)</text>"
                x += Self.legendWidth(entry)
            }
        }
        return markup
    }

    private static func legendWidth(_ entry: LegendEntry) -> Double {
        23 + TextWidth.pixels(of: entry.name, size: 12) + 16
    }
}

/// Estimates the width of a text, because the reader's fonts are unknown.
enum TextWidth {
    /// Returns the width in pixels at a font size in pixels. Overestimates, because overlapping texts are worse than
    /// gaps.
    static func pixels(of text: String, size: Double) -> Double {
        text.unicodeScalars.reduce(0) { $0 + ($1.value < 0x2E80 ? 0.58 : 1) * size }
    }
}
