/// A named line of a plot.
struct PlotLine: Hashable, Sendable {
    struct Point: Hashable, Sendable {
        var x: Double
        /// The value; a gap if it is not finite.
        var y: Double
    }

    let name: String
    let tone: PlotTone
    let isDashed: Bool
    /// The points in the order of `x`; at most `Thinning.limit`.
    let points: [Point]

    /// - Parameter points: any number of points, which are thinned.
    init(name: String, tone: PlotTone, isDashed: Bool = false, points: [Point]) {
        self.name = name
        self.tone = tone
        self.isDashed = isDashed
        self.points = Thinning.points(points)
    }
}
