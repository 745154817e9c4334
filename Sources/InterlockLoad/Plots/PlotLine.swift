/// A named line of a plot.
struct PlotLine: Hashable, Sendable {
    struct Point: Hashable, Sendable {
        var x: Double
        /// What is no number is a gap.
        var y: Double
    }

    let name: String
    let tone: PlotTone
    let isDashed: Bool
    /// In the order of `x`; at most `Thinning.limit`.
    let points: [Point]

    /// - Parameter points: as many as there are; they are thinned out.
    init(name: String, tone: PlotTone, isDashed: Bool = false, points: [Point]) {
        self.name = name
        self.tone = tone
        self.isDashed = isDashed
        self.points = Thinning.points(points)
    }
}
