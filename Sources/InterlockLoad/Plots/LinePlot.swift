/// Lines over a linear or logarithmic x axis, such as values over time.
struct LinePlot: Plot {
    let frame: PlotFrame
    private let lines: [PlotLine]

    /// Creates a plot whose axes cover all points.
    /// - Parameter xValues: further values that the x axis must cover.
    init(
        title: String, summary: String, x: PlotLabel, y: PlotLabel, lines: [PlotLine], bands: [PlotBand] = [],
        xValues: [Double] = []
    ) {
        self.lines = lines
        let points = lines.lazy.flatMap(\.points)
        frame = PlotFrame(
            title: title, summary: summary,
            x: PlotAxis(
                label: x.text, unit: x.unit, scale: x.scale, showing: points.map(\.x) + xValues, isExact: true),
            side: .axis(PlotAxis(label: y.text, unit: y.unit, scale: y.scale, showing: points.map(\.y))),
            legend: lines.map { .init(name: $0.name, tone: $0.tone, mark: $0.isDashed ? .dashes : .line) },
            bands: bands)
    }

    var isEmpty: Bool {
        !lines.contains { $0.points.contains { frame.x($0.x) != nil && frame.y($0.y) != nil } }
    }

    var drawing: Markup {
        "\(lines.map(path))\(lines.map(dots))"
    }

    private func path(_ line: PlotLine) -> Markup {
        var path = Markup()
        var isGap = true
        for point in line.points {
            guard let x = frame.x(point.x), let y = frame.y(point.y) else {
                isGap = true
                continue
            }
            // Round line ends make a line of length zero visible, which shows isolated points.
            path += isGap ? "M\(x) \(y)h0" : "L\(x) \(y)"
            isGap = false
        }
        return "<path class=\"line \(line.tone.styleName)\(line.isDashed ? " dashed" : "")\" d=\"\(path)\"/>"
    }

    /// Returns a dot with a tooltip per point if the line has few points.
    private func dots(_ line: PlotLine) -> Markup {
        guard line.points.count <= Self.dottedPoints, case .axis(let side) = frame.side else { return "" }
        var dots = Markup()
        for point in line.points {
            guard let x = frame.x(point.x), let y = frame.y(point.y) else { continue }
            let words = "\(line.name): \(side.unit.figure(point.y)) at \(frame.x.unit.figure(point.x))"
            dots +=
                "<circle class=\"area \(line.tone.styleName)\" cx=\"\(x)\" cy=\"\(y)\" r=\"2.8\"><title>\(words)</title></circle>"
        }
        return dots
    }

    var numbers: PlotNumbers {
        guard case .axis(let side) = frame.side else { return PlotNumbers(columns: [], rows: [], total: 0) }
        var figures: [Double: [Double]] = [:]
        for (column, line) in lines.enumerated() {
            for point in line.points where frame.x(point.x) != nil {
                figures[point.x, default: Array(repeating: .nan, count: lines.count)][column] = point.y
            }
        }
        let all = figures.sorted { $0.key < $1.key }
        let shown = Thinning.heaviest(all, limit: PlotNumbers.limit) { weight(of: $0.value) < weight(of: $1.value) }
        return PlotNumbers(
            columns: [frame.x.label] + lines.map(\.name),
            rows: shown.map { x, row in
                [frame.x.unit.figure(x)] + row.map { $0.isFinite ? side.unit.figure($0) : Figure.missingValue }
            },
            total: all.count)
    }

    /// Returns the highest value of a row, which thinning must keep.
    private func weight(of row: [Double]) -> Double { row.lazy.filter(\.isFinite).max() ?? -.infinity }

    private static let dottedPoints = 60
}
