/// The first line of a history file.
struct HistoryFileHeader: Codable {
    /// What this code writes and reads.
    static let version = 1

    /// What the last line is.
    static let end = "end"

    /// The format's version.
    var history: Int
    var rules: HistoryRules
}
