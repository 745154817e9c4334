/// How a cost grows with something: one plot.
public struct GrowthSeries: Hashable, Sendable, Codable {
    public var title: String
    /// What grows, with its unit.
    public var xLabel: String
    /// What it costs, with its unit.
    public var yLabel: String
    public var isLogX: Bool
    public var isLogY: Bool
    public var lines: [Line]

    public init(title: String, xLabel: String, yLabel: String, isLogX: Bool = false, isLogY: Bool = false, lines: [Line]) {
        self.title = title
        self.xLabel = xLabel
        self.yLabel = yLabel
        self.isLogX = isLogX
        self.isLogY = isLogY
        self.lines = lines
    }

    public struct Line: Hashable, Sendable, Codable {
        public var name: String
        /// In the order of `x`.
        public var points: [Point]

        public init(name: String, points: [Point]) {
            self.name = name
            self.points = points
        }
    }

    public struct Point: Hashable, Sendable, Codable {
        public var x: Double
        public var y: Double

        public init(x: Double, y: Double) {
            self.x = x
            self.y = y
        }
    }
}

extension GrowthSeries {
    /// The plot as an SVG file: on white, without scripts, its title and its legend in it.
    public var svg: String { plot.svg(.alone).text + "\n" }

    var plot: some Plot {
        LinePlot(
            title: title,
            summary: "Upwards \(yLabel)\(isLogY ? ", logarithmic" : ""); to the right \(xLabel)\(isLogX ? ", logarithmic" : "").",
            x: PlotLabel(xLabel, unit: .number, scale: isLogX ? .logarithmic : .linear),
            y: PlotLabel(yLabel, unit: .number, scale: isLogY ? .logarithmic : .linear),
            lines: lines.enumerated().map { index, line in
                PlotLine(name: line.name, tone: .series(index), points: line.points.map { .init(x: $0.x, y: $0.y) })
            })
    }
}
