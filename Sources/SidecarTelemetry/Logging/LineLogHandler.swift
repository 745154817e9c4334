internal import CoreMetrics
internal import Glibc
internal import InterlockCore
package import InterlockOutput
package import Logging
internal import RedisClient
package import SidecarSettings

/// Writes each message as one line on standard error, as logfmt or JSON. Never blocks: see `LineWriter`.
///
/// Both formats have the same fields in the same order: time, level, event, message, then the others by name.
package struct LineLogHandler: LogHandler {
    private let format: LogSettings.Format
    private let writer: LineWriter
    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]

    /// Creates the handler of the process. A process must have only one, because the handler sets how the writer
    /// reports dropped lines.
    package init(_ settings: LogSettings, writer: LineWriter = .standardError) {
        format = settings.format
        self.writer = writer
        logLevel = Logger.Level(rawValue: settings.level.rawValue) ?? .info
        let dropped = Counter(label: "interlock_log_lines_dropped_total")
        let format = format
        writer.reportDrops(
            as: { count in
                let event = SidecarLogEvent.logDropped
                return LogLine.now(
                    event.line.level, event.line.message,
                    [Logger.eventKey: .string(event.rawValue), "lines": .string("\(count)")]
                ).text(in: format)
            }, onDrop: { dropped.increment() })
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let line = LogLine.now(
            event.level, "\(event.message)", metadata.merging(event.metadata ?? [:]) { _, new in new })
        writer.add(line.text(in: format))
    }
}

/// One line of the log, before it is formatted.
package struct LogLine {
    /// The event ID of lines that a library writes.
    package static let otherEvent = "other"

    private let fields: [(name: String, value: String)]

    /// Creates a line with its fields in the order of the log.
    /// - Parameters:
    ///   - seconds: the Unix time in whole seconds, to which `milliseconds` are added.
    ///   - metadata: the other fields, including the event's ID.
    package init(seconds: Int, milliseconds: Int, level: Logger.Level, message: String, metadata: Logger.Metadata) {
        var otherFields = metadata.mapValues { "\($0)" }
        let event = otherFields.removeValue(forKey: Logger.eventKey) ?? Self.otherEvent
        fields =
            [
                ("time", Self.rfc3339(seconds: seconds, milliseconds: milliseconds)), ("level", level.rawValue), ("event", event),
                ("message", message),
            ] + otherFields.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns a line with the current time.
    fileprivate static func now(_ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata) -> LogLine {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return LogLine(
            seconds: time.tv_sec, milliseconds: time.tv_nsec / 1_000_000, level: level, message: message, metadata: metadata)
    }

    package func text(in format: LogSettings.Format) -> String {
        switch format {
        case .text: fields.map { "\($0.name)=\(Self.logfmt($0.value))" }.joined(separator: " ")
        case .json: "{" + fields.map { "\(JSONText.quoted($0.name)):\(JSONText.quoted($0.value))" }.joined(separator: ",") + "}"
        }
    }

    /// Returns the value without quotes if that is unambiguous, otherwise quoted with the escapes of JSON.
    private static func logfmt(_ value: String) -> String {
        let isBare =
            !value.isEmpty
            && value.unicodeScalars.allSatisfy {
                !JSONText.isTerminalControl($0) && $0 != "\"" && $0 != "=" && $0 != "\\" && !$0.properties.isWhitespace
            }
        return isBare ? value : JSONText.quoted(value)
    }

    /// Returns the time in UTC, with milliseconds: `2026-11-23T20:31:16.042Z`.
    private static func rfc3339(seconds: Int, milliseconds: Int) -> String {
        var seconds = time_t(seconds)
        var date = tm()
        gmtime_r(&seconds, &date)
        func padded(_ number: some BinaryInteger, _ length: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, length - digits.utf8.count)) + digits
        }
        let day = "\(padded(date.tm_year + 1900, 4))-\(padded(date.tm_mon + 1, 2))-\(padded(date.tm_mday, 2))"
        return "\(day)T\(padded(date.tm_hour, 2)):\(padded(date.tm_min, 2)):\(padded(date.tm_sec, 2)).\(padded(milliseconds, 3))Z"
    }
}
