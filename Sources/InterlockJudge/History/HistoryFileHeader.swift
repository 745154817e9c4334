/// The first line of a history file.
struct HistoryFileHeader: Codable {
    /// The version of the format that this code writes and reads.
    static let version = 1

    /// The kind of the last line.
    static let end = "end"

    /// The version of the file's format.
    var history: Int
    /// The origin of the history; `nil` in files of versions that did not record it.
    var source: HistorySource?
    var rules: HistoryRules
}
