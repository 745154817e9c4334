import InterlockCore
import SidecarConsole
import SidecarListeners

/// Formats the cells of one part of a frame, by the kind of each column.
struct TopCells {
    /// The current Unix time in milliseconds, by the clock of the sidecar's host.
    let nowMilliseconds: Int64
    /// The Unix time in milliseconds at which the part was read from Redis; `nil` if unknown.
    let readAtMilliseconds: Int64?

    func text(of column: ViewModel.Column, in row: JSONValue, at index: Int = 0) -> String {
        let value = Optional(row)[path: column.path]
        let span = amount(of: column, in: row).map { ReadableText.span(milliseconds: Int64(max(0, min($0, 1e15)))) } ?? ""
        switch column.kind {
        case .position: return "\(index + 1)"
        case .rate: return value.number.map(ReadableText.percentage) ?? column.empty
        case .flag: return value.flag ? "yes" : "no"
        case .list: return value.list.compactMap { Optional($0).text }.joined(separator: ", ")
        case .moment: return ReadableText.moment(epochMilliseconds: value.integer ?? value.text.flatMap { Int64($0) } ?? 0)
        case .span, .since: return span
        case .left: return (value.integer ?? 0) < 0 ? "no expiry" : span
        case .ago: return [value.text, span.isEmpty ? nil : "\(span) ago"].compactMap(\.self).joined(separator: ", ")
        case .text, .fence, .state, .lock, .service, .meter, .number, .peak, .series:
            return value.text ?? value.integer.map { "\($0)" } ?? column.empty
        }
    }

    /// Returns the sort key of a row: the number of its cell, then the text.
    func sortKey(of column: ViewModel.Column, in row: JSONValue) -> (Double, String) {
        (amount(of: column, in: row) ?? -1, text(of: column, in: row).lowercased())
    }

    /// Returns the number that a cell shows; `nil` if it shows no number. Other software may have written the value, so
    /// any number is possible.
    private func amount(of column: ViewModel.Column, in row: JSONValue) -> Double? {
        let (row, nowMilliseconds) = (Optional(row), Double(self.nowMilliseconds))
        let (value, otherValue) = (row[path: column.path].number, row[path: column.other].number)
        switch column.kind {
        case .since: return value.flatMap { $0 == 0 ? nil : (otherValue ?? nowMilliseconds) - $0 }
        case .left:
            guard let value, value != 0 else { return nil }
            guard value >= 0 else { return .infinity }
            let measuredAtMilliseconds =
                row["at_ms"].number ?? readAtMilliseconds.map { Double($0) } ?? nowMilliseconds
            return value - (nowMilliseconds - measuredAtMilliseconds)
        case .ago: return otherValue.map { nowMilliseconds - $0 }
        case .meter: return otherValue
        default: return value
        }
    }
}

extension ViewModel {
    /// Returns the model of the table whose rows can be sorted and selected.
    static func main(of view: LiveView.Name) -> ViewModel {
        switch view {
        case .overview: fleet
        case .locks: locks
        case .lock: lockGrants
        case .services: services
        case .service: limits
        case .domains: domains
        case .grants: grants
        case .events: events
        }
    }

    /// The columns that a single frame can fill.
    var shown: [Column] { columns.filter { $0.kind != .peak } }

    /// The former names of columns, which `--sort` accepts for one more version.
    private static let formerWords = [
        "AGE": "UPDATED", "READ": "UPDATED", "DIFFERS": "CONFIGURED", "FAILED": "FAILING", "UNDERWAY": "IN PROGRESS",
        "UNDER WAY": "IN PROGRESS", "UNDER": "IN PROGRESS", "TYPE": "EVENT", "UP FOR": "UPTIME", "TOLD BY": "SOURCE",
        "TOLD": "SOURCE", "WHAT": "DETAILS", "PASSED": "ALLOWED", "TURN": "POSITION", "USED NOW": "IN USE", "USED": "IN USE",
        "ROOM": "RETRY", "ROOM AGAIN IN": "RETRY",
    ]

    /// Returns the index of the shown column whose title equals this word or begins with it.
    func column(_ word: String) -> Int? {
        let (titles, word) = (shown.map { $0.title.uppercased() }, word.uppercased())
        func index(of word: String) -> Int? { titles.firstIndex(of: word) ?? titles.firstIndex { $0.hasPrefix(word) } }
        return index(of: word) ?? Self.formerWords[word].flatMap(index)
    }
}
