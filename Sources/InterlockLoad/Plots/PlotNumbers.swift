/// The data of a plot as a table: the first column holds the positions, the others the values.
struct PlotNumbers: Hashable, Sendable {
    /// The maximum number of rows in a plot's table.
    static let limit = 200

    let columns: [String]
    let rows: [[String]]
    /// The number of rows before thinning.
    let total: Int
    /// A description of the rows that remain after thinning.
    var choice = "the highest of each interval"
}
