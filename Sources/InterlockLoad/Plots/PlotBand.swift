/// A named, shaded stretch of the x axis.
struct PlotBand: Hashable, Sendable {
    let name: String
    /// The text of the band's tooltip.
    let detail: String
    let began: Double
    let ended: Double
}
