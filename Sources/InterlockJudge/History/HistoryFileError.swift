/// A history that could not be written, or is not what it should be.
public struct HistoryFileError: Error, Hashable, Sendable, CustomStringConvertible {
    public let path: String
    /// Counted from 1; `nil`: it is about the file.
    public let line: Int?
    /// What was wrong, and what was expected.
    public let reason: String

    init(path: String, line: Int? = nil, _ reason: String) {
        self.path = path
        self.line = line
        self.reason = reason
    }

    public var description: String {
        "the history \"\(path)\"\(line.map { ", line \($0)" } ?? ""): \(reason)"
    }
}
