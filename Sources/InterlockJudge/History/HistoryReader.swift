internal import FoundationEssentials
package import InterlockCore

/// Reads the events of a history that `HistoryWriter` wrote, one at a time. Uses O(longest line) memory.
package struct HistoryReader {
    private static let chunkSize = 64 * 1024
    /// The maximum length of a line, in bytes. `HistoryWriter` never writes a longer line.
    private static let maximumLineLength = 1024 * 1024

    package let path: String
    /// The rules to judge the history by.
    package let rules: HistoryRules
    /// The end of the history; `nil` until `next` reaches it.
    package private(set) var end: Instant?

    private let decoder = JSONDecoder()
    private var lines: Lines
    private var eventCount = 0

    /// Opens the file and reads its rules.
    /// - Throws: `HistoryFileError` if the file cannot be read or does not start with the rules of this format.
    package init(path: String) throws(HistoryFileError) {
        self.path = path
        lines = try Lines(path: path)
        guard let first = try lines.next() else {
            throw HistoryFileError(path: path, line: 1, "the file is empty; expected the rules of a history")
        }
        let header: HistoryFileHeader
        do {
            header = try decoder.decode(HistoryFileHeader.self, from: Data(first))
        } catch {
            throw HistoryFileError(
                path: path, line: 1,
                "expected a history's rules, such as `{\"history\":1,\"rules\":{…}}`: \(Self.summary(of: error))")
        }
        guard header.history == HistoryFileHeader.version else {
            throw HistoryFileError(
                path: path, line: 1,
                "expected format \(HistoryFileHeader.version), got format \(header.history); read the file with the version that wrote it"
            )
        }
        rules = header.rules
    }

    /// Returns the next event; `nil` at the end.
    /// - Throws: `HistoryFileError` if the file is damaged or cut off.
    package mutating func next() throws(HistoryFileError) -> HistoryEvent? {
        guard end == nil else { return nil }
        guard let bytes = try lines.next() else {
            throw HistoryFileError(
                path: path, line: lines.number + 1,
                "the file is cut off after \(eventCount) events; expected another event or the end")
        }
        let line: HistoryLine
        do {
            line = try decoder.decode(HistoryLine.self, from: Data(bytes))
        } catch {
            throw HistoryFileError(path: path, line: lines.number, "expected an event: \(Self.summary(of: error))")
        }
        if line.kind == HistoryFileHeader.end { return try finish(line) }
        eventCount += 1
        do {
            return try line.event()
        } catch {
            throw HistoryFileError(path: path, line: lines.number, error.reason)
        }
    }

    private mutating func finish(_ line: HistoryLine) throws(HistoryFileError) -> HistoryEvent? {
        guard line.events == eventCount else {
            throw HistoryFileError(
                path: path, line: lines.number, "expected \(line.events ?? 0) events before the end, got \(eventCount)")
        }
        guard try lines.next() == nil else {
            throw HistoryFileError(path: path, line: lines.number, "expected no lines after the end")
        }
        end = Instant(nanoseconds: line.atNanoseconds)
        return nil
    }

    private static func summary(of error: any Error) -> String {
        switch error as? DecodingError {
        case .keyNotFound(let key, _)?: "\"\(key.stringValue)\" is missing"
        case .typeMismatch(let type, let context)?, .valueNotFound(let type, let context)?:
            Self.fieldPath(of: context).map { "\"\($0)\" is not \(type)" } ?? "it is not a JSON object"
        case .dataCorrupted(let context)?:
            Self.fieldPath(of: context).map { "\"\($0)\" has an unknown value" } ?? "it is not a JSON object"
        default: "\(error)"
        }
    }

    /// Returns the path of the faulty field; `nil` if the error concerns the whole line.
    private static func fieldPath(of context: DecodingError.Context) -> String? {
        context.codingPath.isEmpty ? nil : context.codingPath.map(\.stringValue).joined(separator: ".")
    }
}

extension HistoryReader {
    /// Reads the lines of a file, one at a time.
    private struct Lines {
        let path: String
        /// The number of the last line that `next` returned, counted from 1.
        private(set) var number = 0
        private let file: OpenFile
        private var buffer: [UInt8] = []
        /// The index of the first byte that `next` has not returned.
        private var start = 0
        private var isAtEnd = false

        init(path: String) throws(HistoryFileError) {
            self.path = path
            do {
                file = try OpenFile(readingFrom: path)
            } catch {
                throw HistoryFileError(path: path, "cannot be opened: \(error.reason); expected a file from --history")
            }
        }

        /// Returns the next line without its line feed; `nil` at the end.
        mutating func next() throws(HistoryFileError) -> ArraySlice<UInt8>? {
            var searched = start
            while true {
                if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                    defer { start = end + 1 }
                    number += 1
                    return buffer[start..<end]
                }
                guard !isAtEnd else {
                    guard start == buffer.count else {
                        throw HistoryFileError(
                            path: path, line: number + 1, "the file is cut off within this line")
                    }
                    return nil
                }
                guard buffer.count - start <= HistoryReader.maximumLineLength else {
                    throw HistoryFileError(
                        path: path, line: number + 1,
                        "the line has more than \(HistoryReader.maximumLineLength) bytes; expected an event of a history")
                }
                buffer.removeFirst(start)
                start = 0
                searched = buffer.count
                do {
                    isAtEnd = try file.read(HistoryReader.chunkSize, into: &buffer) == 0
                } catch {
                    throw HistoryFileError(path: path, line: number + 1, "cannot be read: \(error.reason)")
                }
            }
        }
    }
}
