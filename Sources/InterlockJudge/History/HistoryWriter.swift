internal import FoundationEssentials
package import InterlockCore

/// Writes a history to a file while it happens, one JSON object per line. The first line contains the rules, the last
/// line marks the end, and each line in between is an event; see `HistoryLine`.
///
/// The writer buffers 64 KiB and blocks while it writes them. `HistoryReader` reports a history that was not closed as
/// cut off.
package struct HistoryWriter: Sendable {
    private static let bufferSize = 64 * 1024

    package let path: String
    private let file: OpenFile
    private var buffer: [UInt8] = []
    private var eventCount = 0
    private var lastEventTime = Instant(nanoseconds: 0)

    /// Creates the file, or replaces an existing one.
    /// - Throws: `HistoryFileError` if the file cannot be created.
    package init(path: String, rules: HistoryRules, source: HistorySource = .run) throws(HistoryFileError) {
        self.path = path
        do {
            file = try OpenFile(writingTo: path)
        } catch {
            throw HistoryFileError(
                path: path, "cannot be created: \(error.reason); choose a writable directory")
        }
        buffer.reserveCapacity(Self.bufferSize + 1024)
        let encoder = JSONEncoder()
        // Equal histories must produce equal files.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            buffer += try encoder.encode(HistoryFileHeader(history: HistoryFileHeader.version, source: source, rules: rules))
        } catch {
            throw HistoryFileError(path: path, line: 1, "the rules cannot be written as JSON: \(error)")
        }
        try endLine()
    }

    /// Writes the next event.
    /// - Throws: `HistoryFileError`, for instance if the disk is full.
    package mutating func write(_ event: HistoryEvent) throws(HistoryFileError) {
        eventCount += 1
        lastEventTime = event.at
        HistoryLine(event).write(into: &buffer)
        try endLine()
    }

    /// Marks the end and writes the buffered lines.
    /// - Parameter end: the end of the history; by default the time of its last event.
    package mutating func close(at end: Instant? = nil) throws(HistoryFileError) {
        var line = HistoryLine(at: end ?? lastEventTime, kind: HistoryFileHeader.end)
        line.events = eventCount
        line.write(into: &buffer)
        try endLine()
        try flush()
    }

    private mutating func endLine() throws(HistoryFileError) {
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferSize { try flush() }
    }

    private mutating func flush() throws(HistoryFileError) {
        do {
            try file.write(buffer)
        } catch {
            throw HistoryFileError(path: path, "cannot be written: \(error.reason)")
        }
        buffer.removeAll(keepingCapacity: true)
    }
}
