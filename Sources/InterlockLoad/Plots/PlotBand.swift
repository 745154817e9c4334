/// A named and shaded part of the x axis.
struct PlotBand: Hashable, Sendable {
    let name: String
    /// The text of the band's tooltip.
    let detail: String
    /// The start, in seconds since the start of the run.
    let beganSeconds: Double
    /// The end, in seconds since the start of the run.
    let endedSeconds: Double
}
