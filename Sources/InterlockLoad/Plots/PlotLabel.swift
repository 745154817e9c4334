/// The label, unit and scale of an axis whose domain is not known yet.
struct PlotLabel: Hashable, Sendable {
    let text: String
    let unit: AxisUnit
    let scale: PlotAxis.Scale

    init(_ text: String, unit: AxisUnit, scale: PlotAxis.Scale = .linear) {
        self.text = text
        self.unit = unit
        self.scale = scale
    }

    /// The x axis of every plot over time.
    static let time = PlotLabel("time since the start", unit: .seconds)
}
