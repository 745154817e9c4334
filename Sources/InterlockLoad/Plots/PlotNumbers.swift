/// What a plot shows, as a table: a first column of places, and the figures that stand there.
struct PlotNumbers: Hashable, Sendable {
    /// The most rows that a plot's table has.
    static let limit = 200

    let columns: [String]
    let rows: [[String]]
    /// How many rows there would be, and which of them are shown.
    let total: Int
    var choice = "the highest of each stretch"
}
