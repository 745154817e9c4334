/// The first line of a history file.
struct HistoryFileHeader: Codable {
    /// What this code writes and reads.
    static let version = 1

    /// What the last line is.
    static let end = "end"

    /// The format's version.
    var history: Int
    /// `nil`: written by a version that did not say so.
    var source: HistorySource?
    var rules: HistoryRules
}

/// Where a history comes from. Nothing else in it says so.
public enum HistorySource: String, Sendable, Codable {
    /// Processes and a Redis on a machine.
    case run
    /// A world that a seed decides.
    case simulation
}
