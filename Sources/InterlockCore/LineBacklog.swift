internal import DequeModule

/// The lines that wait to be written to one file descriptor, up to a limit. The backlog drops and counts lines beyond
/// the limit, and inserts a line with their number at their position.
package struct LineBacklog: Sendable {
    /// The maximum number of waiting bytes, unless a single line is longer.
    private let maximumBytes: Int
    private var lines: Deque<[UInt8]> = []
    private var byteCount = 0
    /// The number of lines dropped since the last report.
    private var droppedCount = 0

    /// Creates an empty backlog of at most `limit` bytes.
    package init(limit: Int) {
        maximumBytes = limit
    }

    package var isEmpty: Bool { lines.isEmpty && droppedCount == 0 }

    /// Adds a line or drops it. After a drop, the backlog accepts lines again once half of the limit is free, so that
    /// one report covers many lines.
    /// - Parameter report: makes the line that reports the number of dropped lines.
    /// - Returns: whether the backlog accepted the line.
    package mutating func add(_ line: [UInt8], report: (Int) -> [UInt8]) -> Bool {
        let acceptedBytes = droppedCount == 0 ? maximumBytes : maximumBytes / 2
        guard byteCount + line.count <= acceptedBytes || lines.isEmpty else {
            droppedCount += 1
            return false
        }
        appendReport(report)
        append(line)
        return true
    }

    /// Removes and returns the next line to write; `nil` if no line waits.
    package mutating func next(report: (Int) -> [UInt8]) -> [UInt8]? {
        if lines.isEmpty { appendReport(report) }
        guard let line = lines.popFirst() else { return nil }
        byteCount -= line.count
        return line
    }

    private mutating func appendReport(_ report: (Int) -> [UInt8]) {
        guard droppedCount > 0 else { return }
        append(report(droppedCount))
        droppedCount = 0
    }

    private mutating func append(_ line: [UInt8]) {
        byteCount += line.count
        lines.append(line)
    }
}
