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
        var isAfterGap = true
        for point in line.points {
            guard let x = frame.x(point.x), let y = frame.y(point.y) else {
                isAfterGap = true
                continue
            }
            // With round line ends, a line of length zero is visible, so isolated points are too.
            path += isAfterGap ? "M\(x) \(y)h0" : "L\(x) \(y)"
            isAfterGap = false
        }
        return "<path class=\"line \(line.tone.styleName)\(line.isDashed ? " dashed" : "")\" d=\"\(path)\"/>"
    }

    /// Returns a dot with a tooltip for each point; nothing if the line has many points.
    private func dots(_ line: PlotLine) -> Markup {
        guard line.points.count <= Self.maximumDots, case .axis(let side) = frame.side else { return "" }
        var dots = Markup()
        for point in line.points {
            guard let x = frame.x(point.x), let y = frame.y(point.y) else { continue }
            let title = "\(line.name): \(side.unit.figure(point.y)) at \(frame.x.unit.figure(point.x))"
            dots +=
                "<circle class=\"area \(line.tone.styleName)\" cx=\"\(x)\" cy=\"\(y)\" r=\"2.8\"><title>\(title)</title></circle>"
        }
        return dots
    }

    var numbers: PlotNumbers {
        guard case .axis(let side) = frame.side else { return PlotNumbers(columns: [], rows: [], total: 0) }
        var rowsByX: [Double: [Double]] = [:]
        for (column, line) in lines.enumerated() {
            for point in line.points where frame.x(point.x) != nil {
                rowsByX[point.x, default: Array(repeating: .nan, count: lines.count)][column] = point.y
            }
        }
        let allRows = rowsByX.sorted { $0.key < $1.key }
        let shownRows = Thinning.heaviest(allRows, limit: PlotNumbers.limit) {
            weight(of: $0.value) < weight(of: $1.value)
        }
        return PlotNumbers(
            columns: [frame.x.label] + lines.map(\.name),
            rows: shownRows.map { x, row in
                [frame.x.unit.figure(x)] + row.map { $0.isFinite ? side.unit.figure($0) : Figure.missingValue }
            },
            total: allRows.count)
    }

    /// Returns the highest value of a row, which thinning must keep.
    private func weight(of row: [Double]) -> Double { row.lazy.filter(\.isFinite).max() ?? -.infinity }

    private static let maximumDots = 60
}
