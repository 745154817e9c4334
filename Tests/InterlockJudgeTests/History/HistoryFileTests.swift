import FoundationEssentials
import InterlockCore
import Testing

@testable import InterlockJudge

@Suite("History files")
struct HistoryFileTests {
    private let path = "/tmp/interlock-history-\(UInt64.random(in: 0 ... .max)).jsonl"

    /// A history with events of every kind and some violations.
    private var everything: SyntheticHistory {
        var history = SyntheticHistory(services: [
            ServiceRules(
                name: "catalog",
                limits: [LimitRule(algorithm: .gcra, limit: 1, windowMilliseconds: 1000, burst: 0, isPerSubject: true)],
                whenRedisIsDown: .local, halfOpenPermits: 3)
        ])
        history.rules.clockDrift = 0.008
        history.grant(1, to: 1, fence: 1_795_237_271_127_781, requested: 0, answered: 1)
        history.grant(2, to: 2, fence: 2, requested: 2, answered: 3, mode: .shared)
        history.grant(3, to: 3, fence: 3, requested: 4, answered: 5, mode: .permits(12))
        history.renew(1, of: 1, requested: 6, answered: 7)
        history.release(1, of: 1, requested: 8, answered: 9)
        history.write(1, of: 1, fence: 1, at: 10)
        history.write(2, of: 2, fence: 2, at: 10, isAccepted: false)
        history.take(2, subject: 5, requested: 11, answered: 12.123456, limit: 1, resetAfter: 800)
        history.take(requested: 11, answered: 12)
        history.permit(4, sidecar: 1, requested: 13, answered: 14, state: .halfOpen)
        history.report(4, isOK: false, requested: 15)
        history.operation(.proxied(service: 0), requested: 17, ended: 18, .done(.passed(status: 503)))
        history.breaker(.open, generation: 1_795_237_271_127_999, at: 19, until: 300)
        history.breaker(.closed, generation: 1_795_237_271_128_000, at: 400)
        history.fault(.redisWipe, from: 500, to: 501)
        history.fault(.pause, sidecar: 1, from: 502, to: nil)
        let endings: [OperationEnding] = [
            .refused(.held), .refused(.lost), .refused(.limited(retryAfterMilliseconds: -1)),
            .refused(.open(retryAfterMilliseconds: 1)),
            .refused(.busy(retryAfterMilliseconds: 2)), .refused(.other("held")), .failed(code: "UNAVAILABLE"),
            .unknown(reason: "the \"answer\"\nwas lost: ü/"),
        ]
        for (number, ending) in endings.enumerated() {
            let at = 600 + Double(number)
            history.operation(.renew(lock: 1, lease: 1, ttlMilliseconds: 5), requested: at, ended: at + 0.5, ending)
        }
        return history
    }

    private func write(_ history: SyntheticHistory) throws {
        var writer = try HistoryWriter(path: path, rules: history.rules)
        for event in history.sortedEvents { try writer.write(event) }
        try writer.close(at: SyntheticHistory.instant(2000))
    }

    /// Reads the whole file. Returns the error; `nil` if the file is valid.
    private func failure() throws -> HistoryFileError? {
        do throws(HistoryFileError) {
            var reader = try HistoryReader(path: path)
            while try reader.next() != nil {}
            return nil
        } catch {
            return error
        }
    }

    private func edit(_ change: (inout [String]) -> Void) throws {
        var lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
        change(&lines)
        try lines.joined(separator: "\n").write(toFile: path, atomically: false, encoding: .utf8)
    }

    private func remove() { try? FileManager.default.removeItem(atPath: path) }

    @Test("A written history is read back: rules, events and the end")
    func roundTrip() throws {
        defer { remove() }
        try write(everything)
        var reader = try HistoryReader(path: path)
        var events: [HistoryEvent] = []
        while let event = try reader.next() { events.append(event) }
        #expect(reader.rules == everything.rules)
        #expect(events == everything.sortedEvents)
        #expect(reader.end == SyntheticHistory.instant(2000))
    }

    @Test("A replay produces the report of the run")
    func replayProducesReportOfRun() throws {
        defer { remove() }
        try write(everything)
        let replayed = try HistoryCheck(replaying: path)
        let report = everything.check(until: 2000).report
        #expect(report.violationCount > 3)
        #expect(replayed.report == report)
    }

    @Test("Equal histories produce equal files")
    func sameFile() throws {
        defer { remove() }
        try write(everything)
        let first = try String(contentsOfFile: path, encoding: .utf8)
        try write(everything)
        let second = try String(contentsOfFile: path, encoding: .utf8)
        #expect(first == second)
    }

    @Test("A file longer than one read is read to its end")
    func longFile() throws {
        defer { remove() }
        var writer = try HistoryWriter(
            path: path, rules: HistoryRules(services: [], sidecars: 1, patienceMilliseconds: 1, recoveryMilliseconds: 1)
        )
        for number in 0..<5000 {
            try writer.write(
                HistoryEvent(
                    at: Instant(nanoseconds: Int64(number)), .wrote(client: number, lock: 1, lease: 1, fence: 1, isAccepted: true)
                ))
        }
        try writer.close()
        var reader = try HistoryReader(path: path)
        var count = 0
        while try reader.next() != nil { count += 1 }
        #expect(count == 5000)
        #expect(reader.end == Instant(nanoseconds: 4999))
    }

    @Test("A file cut off within a line is reported with the line")
    func cutOffWithinALine() throws {
        defer { remove() }
        try write(everything)
        try edit { lines in
            lines.removeLast(10)
            lines[lines.count - 1].removeLast(5)
        }
        let count = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count
        let error = try failure()
        #expect(error?.line == count)
        #expect(error?.description.contains("cut off within this line") == true)
    }

    @Test("A file cut off between two lines is reported with the line")
    func cutOffBetweenLines() throws {
        defer { remove() }
        try write(everything)
        try edit { $0 = Array($0.prefix(7)) + [""] }
        let error = try failure()
        #expect(error?.line == 8)
        #expect(error?.description.contains("cut off after 6 events") == true)
    }

    @Test("A missing line is reported at the end")
    func missingLine() throws {
        defer { remove() }
        try write(everything)
        try edit { $0.remove(at: 4) }
        #expect(try failure()?.reason.contains("events before the end") == true)
    }

    @Test(
        "A damaged line is reported with what was expected",
        arguments: [
            (#"{"at":1,"what":"gran"#, "not a JSON object"), (#"[1]"#, "not a JSON object"),
            (#"{"what":"released"}"#, #""at" is missing"#),
            (#"{"at":1,"what":"granted","client":1,"lease":1,"valid":1}"#, #"the field "fence""#),
            (#"{"at":1,"what":"granted","client":"one"}"#, "\"client\""),
            (#"{"at":1,"what":"stolen","client":1}"#, "expected acquire"),
            (#"{"at":1,"what":"refused","client":1,"reason":"no"}"#, "expected held"),
            (#"{"at":1,"what":"permitted","client":1,"permit":1,"state":"ajar"}"#, "half_open"),
            (#"{"at":1,"what":"fault","fault":1,"reason":"flood"}"#, "redis-wipe"),
            (#"{"at":1,"what":"acquire","client":1,"sidecar":0,"lock":1,"mode":"permits-x","ttl":1,"wait":0}"#, "permits-"),
        ])
    func damagedLine(line: String, expected: String) throws {
        defer { remove() }
        try write(everything)
        try edit { $0[4] = line }
        let error = try failure()
        #expect(error?.line == 5)
        #expect(error?.reason.contains(expected) == true, "\(error?.reason ?? "")")
    }

    @Test(
        "A file that is not a history is reported at its first line",
        arguments: [
            ("", "empty"), ("hello\n", "not a JSON object"),
            (#"{"history":2,"rules":{"services":[],"sidecars":1,"patience":1,"recovery":1,"clockDrift":0}}"# + "\n", "format 2"),
        ])
    func noHistory(text: String, expected: String) throws {
        defer { remove() }
        try text.write(toFile: path, atomically: false, encoding: .utf8)
        let error = try failure()
        #expect(error?.line == 1)
        #expect(error?.reason.contains(expected) == true, "\(error?.reason ?? "")")
    }

    @Test("A missing file and a missing directory are reported")
    func missingFileAndMissingDirectoryAreReported() throws {
        #expect(try failure()?.reason.contains("No such file") == true)
        let path = "/tmp/interlock-no-such-directory/history.jsonl"
        #expect(throws: HistoryFileError.self) {
            try HistoryWriter(
                path: path,
                rules: HistoryRules(services: [], sidecars: 1, patienceMilliseconds: 1, recoveryMilliseconds: 1))
        }
    }
}
