/// A history file that could not be written or read.
package struct HistoryFileError: Error, Hashable, Sendable, CustomStringConvertible {
    package let path: String
    /// The line number, counted from 1; `nil` if the error concerns the whole file.
    package let line: Int?
    /// A description of the damage and of the expected content.
    package let reason: String

    init(path: String, line: Int? = nil, _ reason: String) {
        self.path = path
        self.line = line
        self.reason = reason
    }

    package var description: String {
        "the history \"\(path)\"\(line.map { ", line \($0)" } ?? ""): \(reason)"
    }
}
