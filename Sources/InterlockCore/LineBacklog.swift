internal import DequeModule

/// The lines that wait to be written to one descriptor, up to a limit. Lines beyond it are dropped and counted, and a
/// report of their number is inserted at their position.
package struct LineBacklog: Sendable {
    /// The maximum number of bytes that wait, unless a single line is longer.
    private let limit: Int
    private var lines: Deque<[UInt8]> = []
    private var byteCount = 0
    /// The number of lines dropped since the last report.
    private var dropped = 0

    package init(limit: Int) {
        self.limit = limit
    }

    package var isEmpty: Bool { lines.isEmpty && dropped == 0 }

    /// Adds a line or drops it. After a drop, lines are accepted again once half of the limit is free, so that one
    /// report covers many lines.
    /// - Parameter report: makes the line that reports the number of dropped lines.
    /// - Returns: whether the line was accepted.
    package mutating func add(_ line: [UInt8], report: (Int) -> [UInt8]) -> Bool {
        let available = dropped == 0 ? limit : limit / 2
        guard byteCount + line.count <= available || lines.isEmpty else {
            dropped += 1
            return false
        }
        appendReport(report)
        append(line)
        return true
    }

    /// Removes the next line to write; returns `nil` if no line waits.
    package mutating func next(report: (Int) -> [UInt8]) -> [UInt8]? {
        if lines.isEmpty { appendReport(report) }
        guard let line = lines.popFirst() else { return nil }
        byteCount -= line.count
        return line
    }

    private mutating func appendReport(_ report: (Int) -> [UInt8]) {
        guard dropped > 0 else { return }
        append(report(dropped))
        dropped = 0
    }

    private mutating func append(_ line: [UInt8]) {
        byteCount += line.count
        lines.append(line)
    }
}
