import FoundationEssentials
import Interlock
import SidecarSettings
import SidecarTelemetry
import Logging
import RedisClient
import Testing

@Suite("Log")
struct LogTests {
    private static var page: String {
        get throws {
            let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
            return try String(decoding: Data(contentsOf: URL(filePath: "/\(root)/docs/operate/logs.md")), as: UTF8.self)
        }
    }

    /// Returns the logged line of an event.
    /// - Parameter seconds: the seconds since 2026-11-23T20:31:16Z.
    private func line(
        _ event: some LoggedEvent, _ fields: [String: String], at seconds: Int, _ milliseconds: Int,
        in format: LogSettings.Format = .text
    ) -> String {
        var metadata = fields.mapValues { Logger.MetadataValue.string($0) }
        metadata["event"] = .string(event.rawValue)
        return LogLine(
            seconds: 1_795_465_876 + seconds, milliseconds: milliseconds, level: event.line.level, message: event.line.message,
            metadata: metadata
        ).text(in: format)
    }

    @Test("The documentation lists exactly the events that are logged, with level and message")
    func listedEvents() throws {
        func rows(of events: [some LoggedEvent]) -> [String] {
            events.map { "|`\($0.rawValue)` |\($0.line.level) |\($0.line.message) |" }
        }
        let logged =
            rows(of: Array(RedisLogEvent.allCases)) + rows(of: Array(CoordinatorLogEvent.allCases))
            + rows(of: Array(SidecarLogEvent.allCases))
        let listed = try Self.page.split(separator: "\n").filter { $0.hasPrefix("|`") && $0.contains(".") }
        for row in logged { #expect(listed.contains { $0.hasPrefix(row) }, "\(row)") }
        for row in listed { #expect(logged.contains { row.hasPrefix($0) }, "\(row)") }
        #expect(Set(logged).count == logged.count)
    }

    @Test("The documentation quotes lines as they are written")
    func quotedLines() throws {
        let page = try Self.page
        let redis = ["redis": "redis://10.0.0.5:6379/0"]
        let lines = [
            line(
                SidecarLogEvent.started,
                redis.merging([
                    "version": "0.3.0", "id": "9f2c41d07ab3", "config": "/etc/interlock/interlock.yaml", "prefix": "interlock:",
                    "resp": "127.0.0.1:7379", "http": "127.0.0.1:7380",
                ]) { $1 }, at: 0, 42),
            line(
                CoordinatorLogEvent.redisLost, redis.merging(["error": "redis://10.0.0.5:6379/0 refuses connections"]) { $1 },
                at: 766, 518),
            line(SidecarLogEvent.stopped, ["reason": "SIGTERM", "ran": "9263s"], at: 9264, 7),
            line(CoordinatorLogEvent.redisConnected, redis, at: 0, 70, in: .json),
        ]
        for line in lines { #expect(page.contains("\n\(line)\n"), "\(line)") }
    }

    @Test(
        "An ambiguous value is quoted",
        arguments: [
            ("plain/value:1", "plain/value:1"), ("", #""""#), ("two words", #""two words""#), ("a=b", #""a=b""#),
            (#"say "x""#, #""say \"x\"""#), ("a\nlevel=error", #""a\u000alevel=error""#), (#"C:\x"#, #""C:\\x""#),
            ("no\u{00A0}break", "\"no\u{00A0}break\""),
        ])
    func ambiguousValueIsQuoted(value: String, written: String) {
        #expect(line(SidecarLogEvent.probeGood, ["x": value], at: 0, 0).hasSuffix(" x=\(written)"))
    }

    @Test("A line logged by a library has an event ID, too")
    func otherEvent() {
        let line = LogLine(seconds: 0, milliseconds: 5, level: .error, message: "oops", metadata: [:])
        #expect(line.text(in: .text) == "time=1970-01-01T00:00:00.005Z level=error event=other message=oops")
        #expect(
            line.text(in: .json) == #"{"time":"1970-01-01T00:00:00.005Z","level":"error","event":"other","message":"oops"}"#)
    }
}
