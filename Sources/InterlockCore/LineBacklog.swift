internal import DequeModule

/// The lines that wait to be written to one descriptor. Bounded: what does not fit is dropped and counted, and a report of
/// the number takes its place among the other lines.
package struct LineBacklog: Sendable {
    /// The most bytes that wait, unless a single line has more.
    private let limit: Int
    private var lines: Deque<[UInt8]> = []
    private var byteCount = 0
    /// The number of lines dropped since the last report.
    private var dropped = 0

    package init(limit: Int) {
        self.limit = limit
    }

    package var isEmpty: Bool { lines.isEmpty && dropped == 0 }

    /// Adds a line, or drops it. After a drop, lines are accepted again once half of the limit is free: one report then stands
    /// for many lines.
    /// - Parameter report: makes the line that reports how many were dropped.
    /// - Returns: whether the line was accepted.
    package mutating func add(_ line: [UInt8], report: (Int) -> [UInt8]) -> Bool {
        let room = dropped == 0 ? limit : limit / 2
        guard byteCount + line.count <= room || lines.isEmpty else {
            dropped += 1
            return false
        }
        appendReport(report)
        append(line)
        return true
    }

    /// Removes the line to write next; `nil`: nothing waits.
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
