/// What an axis is to show, before it is known how much of it.
struct PlotLabel: Hashable, Sendable {
    let text: String
    let unit: AxisUnit
    let scale: PlotAxis.Scale

    init(_ text: String, unit: AxisUnit, scale: PlotAxis.Scale = .linear) {
        self.text = text
        self.unit = unit
        self.scale = scale
    }

    /// Of all plots over a run's time.
    static let time = PlotLabel("time since the start", unit: .seconds)
}
