package import SidecarListeners

/// A table, a list of facts or a diagram, shown by both the console and `interlock top`. Both format each value only by
/// the kind of its column. The console's page contains the models as JSON.
package struct ViewModel: Encodable, Sendable {
    /// A column of a table, a fact, or a line of a diagram.
    package struct Column: Encodable, Sendable {
        package enum Kind: String, Encodable, Sendable {
            case text, number, flag, list
            /// A number from 0 to 1, shown as a percentage.
            case rate
            /// A number without thousands separators, so that it can be copied.
            case fence
            /// The state of a breaker.
            case state
            /// The name of a lock or service, which links to its view.
            case lock, service
            /// The position of the row, from 1.
            case position
            /// Unix time in milliseconds, as a number or a text.
            case moment
            /// A span in milliseconds.
            case span
            /// The time from a moment to the `other` one, or to now.
            case since
            /// The remaining time, as of when the row was read; negative if there is no expiry.
            case left
            /// A text, and the time since the `other` value.
            case ago
            /// A text, and the `other` value as a bar that is full at the row's `limit`.
            case meter
            /// The maximum value that the console has received in the last minute.
            case peak
            /// One value for each of the last seconds.
            case series
        }

        package let title: String
        package let kind: Kind
        /// The path from the row to the value.
        package let path: String
        package let other: String
        /// The text for a missing value.
        package let empty: String
        package let isNumber: Bool
        /// Whether the text changes as time passes.
        let ticks: Bool

        init(_ title: String, _ kind: Kind, _ path: String = "", _ other: String = "", empty: String = "") {
            (self.title, self.kind, self.path, self.other, self.empty) = (title, kind, path, other, empty)
            isNumber = [.number, .rate, .fence, .position, .span, .since, .left, .peak].contains(kind)
            ticks = [.moment, .since, .left, .ago].contains(kind)
        }
    }

    package let title: String
    /// The name of the part that contains the rows; empty for a diagram, whose part is given elsewhere.
    package let part: String
    /// The path from the part to its rows, through lists; empty if the part itself contains the facts.
    package var rows = ""
    /// The paths to the values that identify a row.
    package var key: [String] = []
    /// The text to show instead of an empty table.
    package var empty = ""
    package let columns: [Column]
    /// Returns the texts, by name, of cells that combine several values of the row. `parent` is the object that
    /// contains the row.
    var words: (@Sendable (_ row: JSONValue, _ parent: JSONValue) -> [String: String])?

    private enum CodingKeys: CodingKey { case title, part, rows, key, empty, columns }

    /// Returns the rows in a frame; `nil` if they are not known.
    package func rows(in frame: JSONValue?) -> [JSONValue]? {
        guard let part = frame[part], part["at_ms"] != .null else { return nil }
        return rows.split(separator: ".").reduce([part]) { rows, name in rows.flatMap { $0[String(name)].list } }
    }

    /// Returns a part of a frame with `words` added to its rows. The sidecar adds them once for all consoles.
    package static func completed(_ name: String, _ part: JSONValue) -> JSONValue {
        (modelsWithWords[name] ?? []).reduce(part) { part, model in
            model.completed(part, at: model.rows.split(separator: ".")[...], in: .null)
        }
    }

    private static let modelsWithWords = Dictionary(grouping: all.values.filter { $0.words != nil }, by: \.part)

    func completed(_ value: JSONValue, at path: ArraySlice<Substring> = [], in parent: JSONValue = .null) -> JSONValue {
        guard let words, case .object(var fields) = value else { return value }
        if let name = path.first {
            fields[String(name)] = .array(value[String(name)].list.map { completed($0, at: path.dropFirst(), in: value) })
        } else if fields["words"] == nil {
            fields["words"] = .object(words(value, parent).filter { !$0.value.isEmpty }.mapValues { .string($0) })
        }
        return .object(fields)
    }
}
