/// A stretch of the x axis in which something went on: it is shaded, and named.
struct PlotBand: Hashable, Sendable {
    let name: String
    /// What a person reads who points at it.
    let detail: String
    let began: Double
    let ended: Double
}
