internal import FoundationEssentials
internal import Glibc
package import Logging

/// Writes each message as one JSON object on one line of standard error.
package struct JSONLogHandler: LogHandler {
    private struct Line: Encodable {
        var time: String
        var level: String
        var logger: String
        var message: String
        var metadata: [String: String]?
    }

    private let label: String
    package var logLevel: Logger.Level = .info
    package var metadata: Logger.Metadata = [:]

    package init(label: String) {
        self.label = label
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { _, new in new }
        let line = Line(
            time: Date().ISO8601Format(.iso8601(timeZone: .gmt, includingFractionalSeconds: true)), level: event.level.rawValue,
            logger: label, message: "\(event.message)", metadata: all.isEmpty ? nil : all.mapValues { "\($0)" })
        guard let json = try? JSONEncoder().encode(line) else { return }
        let bytes = Array(json) + [UInt8(ascii: "\n")]
        // One call for the whole line, so that lines of several threads do not mix.
        _ = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
