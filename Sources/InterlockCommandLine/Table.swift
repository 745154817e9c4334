/// Rows of cells in aligned columns.
package struct Table {
    private var rows: [[String]] = []

    /// Creates a table with a row of titles.
    package init(_ titles: [String]) {
        rows.append(titles)
    }

    /// Creates a table of names and values.
    package init(_ fields: KeyValuePairs<String, String>) {
        for (name, value) in fields { add([name, value]) }
    }

    package mutating func add(_ cells: [String]) {
        rows.append(cells.map { $0.isEmpty ? "-" : $0.printable })
    }

    /// The table as text. O(n) in the number of cells.
    package var text: String {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            rows.map { $0.indices.contains(column) ? $0[column].count : 0 }.max() ?? 0
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                // The last cell of a row is not padded, so that no line ends with spaces.
                column == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[column] - cell.count)
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}
