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

    /// The left side of the plot.
    enum Side: Hashable, Sendable {
        case axis(PlotAxis)
        /// Named rows with their heights, from the top.
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
    /// The legend, in rows no wider than the plot.
    let legendRows: [[LegendEntry]]
    /// The bands that overlap the domain of the x axis.
    let bands: [PlotBand]
    /// The top of the area, in pixels of the drawing, below the legend, the label and the names of bands.
    let top: Double

    init(title: String, summary: String, x: PlotAxis, side: Side, legend: [LegendEntry] = [], bands: [PlotBand] = []) {
        self.title = title
        self.summary = summary
        self.x = x
        self.side = side
        self.legendRows = Self.rows(of: legend)
        self.bands = bands.filter {
            x.position(of: $0.began) != nil && x.position(of: $0.ended) != nil && $0.ended >= x.domain.lowerBound
                && $0.began <= x.domain.upperBound
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

    /// The baseline of the y axis label.
    private var labelLine: Double { 16 + Double(legendRows.count) * 18 }

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
            guard let position = x(tick) else { continue }
            ticks += """
                <path class="axis" d="M\(position) \(bottom)v4"/>\
                <text x="\(position)" y="\(bottom + 18)" text-anchor="middle">\(x.unit.tick(tick))</text>
                """
        }
        return ticks
    }

    private var sideTicks: Markup {
        func tick(_ line: Double, _ baseline: Double, _ text: String) -> Markup {
            """
            <path class="grid" d="M\(Self.left) \(line)h\(Self.areaWidth)"/>\
            <text x="\(Self.left - 8)" y="\(baseline)" text-anchor="end">\(text)</text>
            """
        }
        switch side {
        case .axis(let axis):
            var ticks: Markup = "<text class=\"label\" x=\"4\" y=\"\(labelLine)\">\(axis.label)</text>"
            for value in axis.ticks {
                guard let line = y(value) else { continue }
                ticks += tick(line, line + 4, axis.unit.tick(value))
            }
            return ticks
        case .rows(let label, let rows):
            var ticks: Markup = "<text class=\"label\" x=\"4\" y=\"\(labelLine)\">\(label)</text>"
            var position = top
            for row in rows {
                ticks += tick(position, position + row.height / 2 + 4, row.name)
                position += row.height
            }
            return ticks
        }
    }
}

extension PlotFrame {
    /// The maximum number of rows for the names of bands above the area.
    static let bandRows = 2
    static let bandRowHeight = 12.0

    /// The bands, with as many names as fit.
    var shading: Markup {
        var shading = Markup()
        var taken = [Double](repeating: -.infinity, count: Self.bandRows)
        for band in Thinning.heaviest(bands, by: { $0.ended - $0.began < $1.ended - $1.began }) {
            guard let began = x(band.began), let ended = x(band.ended) else { continue }
            shading += """
                <rect class="band" x="\(began)" y="\(top)" width="\(max(ended - began, 1.5))" height="\(areaHeight)">\
                <title>\(band.detail)</title></rect>
                """
            let end = began + TextWidth.pixels(of: band.name, size: 10)
            guard end <= Self.width, let row = taken.firstIndex(where: { $0 < began }) else { continue }
            taken[row] = end + 4
            let line = top - 4 - Double(Self.bandRows - 1 - row) * Self.bandRowHeight
            shading += "<text class=\"bandname\" x=\"\(began)\" y=\"\(line)\">\(band.name)</text>"
        }
        return shading
    }
}

extension PlotFrame {
    static func rows(of legend: [LegendEntry]) -> [[LegendEntry]] {
        var rows: [[LegendEntry]] = []
        var end = Double.infinity
        for entry in legend {
            let width = legendWidth(entry)
            if end + width > Self.width - 12 {
                rows.append([])
                end = 4
            }
            rows[rows.count - 1].append(entry)
            end += width
        }
        return rows
    }

    var legendRow: Markup {
        var markup = Markup()
        for (row, entries) in legendRows.enumerated() {
            var position = 4.0
            let middle = 10 + Double(row) * 18
            for entry in entries {
                let swatch: Markup =
                    switch entry.mark {
                    case .line, .dashes:
                        """
                        <path class="line \(entry.tone.styleName)\(entry.mark == .dashes ? " dashed" : "")" \
                        d="M\(position) \(middle)h18"/>
                        """
                    case .area:
                        "<rect class=\"area \(entry.tone.styleName)\" x=\"\(position)\" y=\"\(middle - 5)\" width=\"18\" height=\"10\"/>"
                    }
                markup += "\(swatch)<text x=\"\(position + 23)\" y=\"\(middle + 4)\">\(entry.name)</text>"
                position += Self.legendWidth(entry)
            }
        }
        return markup
    }

    private static func legendWidth(_ entry: LegendEntry) -> Double {
        23 + TextWidth.pixels(of: entry.name, size: 12) + 16
    }
}

/// Estimates the width of a text. The reader's fonts are unknown.
enum TextWidth {
    /// Returns the width in pixels at a font size in pixels. Errs on the wide side: overlapping texts are worse than
    /// gaps.
    static func pixels(of text: String, size: Double) -> Double {
        text.unicodeScalars.reduce(0) { $0 + ($1.value < 0x2E80 ? 0.58 : 1) * size }
    }
}
