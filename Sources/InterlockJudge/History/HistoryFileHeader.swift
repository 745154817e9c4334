/// The first line of a history file.
struct HistoryFileHeader: Codable {
    /// The format that this code writes and reads.
    static let version = 1

    /// `what` of the last line.
    static let end = "end"

    /// The format's version.
    var history: Int
    /// `nil` in files of versions that did not write it.
    var source: HistorySource?
    var rules: HistoryRules
}
