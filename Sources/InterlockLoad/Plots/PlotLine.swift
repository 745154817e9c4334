/// A named line of a plot.
struct PlotLine: Hashable, Sendable {
    struct Point: Hashable, Sendable {
        var x: Double
        /// The value. The line has a gap if it is not finite.
        var y: Double
    }

    let name: String
    let tone: PlotTone
    let isDashed: Bool
    /// At most `Thinning.limit` points, in the order of `x`.
    let points: [Point]

    /// Creates a line, and thins its points.
    /// - Parameter points: any number of points, in the order of `x`.
    init(name: String, tone: PlotTone, isDashed: Bool = false, points: [Point]) {
        self.name = name
        self.tone = tone
        self.isDashed = isDashed
        self.points = Thinning.points(points)
    }
}
