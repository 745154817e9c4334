internal import FoundationEssentials
public import InterlockCore

/// Writes a history down as it happens: one JSON object a line. The first has the rules, the last says that this was all; in
/// between is an event on each, see `HistoryLine`.
///
/// It keeps 64 KiB before it writes them; then it blocks for as long as the system needs to take them. A history that was not
/// closed is one that was cut off.
public struct HistoryWriter: Sendable {
    private static let bufferSize = 64 * 1024

    public let path: String
    private let file: OpenFile
    private let encoder: JSONEncoder
    private var buffer: [UInt8] = []
    private var events = 0
    private var last = Instant(nanoseconds: 0)

    /// Begins a new file, in the place of one that is there.
    /// - Throws: `HistoryFileError`.
    public init(path: String, rules: HistoryRules) throws(HistoryFileError) {
        self.path = path
        do {
            file = try OpenFile(writingTo: path)
        } catch {
            throw HistoryFileError(
                path: path, "cannot be created: \(error.reason); name a file in a folder that can be written to")
        }
        encoder = JSONEncoder()
        // The same history is the same file.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        buffer.reserveCapacity(Self.bufferSize + 1024)
        try append(HistoryFileHeader(history: HistoryFileHeader.version, rules: rules))
    }

    /// The next event.
    /// - Throws: `HistoryFileError`: the disk is full, for instance.
    public mutating func write(_ event: HistoryEvent) throws(HistoryFileError) {
        events += 1
        last = event.at
        try append(HistoryLine(event))
    }

    /// That was all.
    /// - Parameter end: when the history was over; by default with its last event.
    public mutating func close(at end: Instant? = nil) throws(HistoryFileError) {
        var line = HistoryLine(at: end ?? last, what: HistoryFileHeader.end)
        line.events = events
        try append(line)
        try flush()
    }

    private mutating func append(_ line: some Encodable) throws(HistoryFileError) {
        do {
            buffer.append(contentsOf: try encoder.encode(line))
        } catch {
            throw HistoryFileError(path: path, line: events + 1, "an event cannot be written as JSON: \(error)")
        }
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
