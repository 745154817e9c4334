import InterlockCore
import Testing

@Suite("Lines that wait for their descriptor")
struct LineBacklogTests {
    private static func line(_ text: String) -> [UInt8] { Array(text.utf8) }

    private static func report(_ count: Int) -> [UInt8] { line("(\(count) dropped)") }

    private static func add(_ texts: [String], to backlog: inout LineBacklog) -> [Bool] {
        texts.map { backlog.add(line($0), report: report) }
    }

    private static func rest(of backlog: inout LineBacklog) -> [String] {
        var texts: [String] = []
        while let line = backlog.next(report: report) { texts.append(String(decoding: line, as: UTF8.self)) }
        return texts
    }

    @Test("Lines are written in order")
    func linesAreWrittenInOrder() {
        var backlog = LineBacklog(limit: 100)
        #expect(Self.add(["one", "two"], to: &backlog) == [true, true])
        #expect(Self.rest(of: &backlog) == ["one", "two"])
        #expect(backlog.isEmpty)
    }

    @Test("Lines that do not fit are dropped, and their number is reported after the lines before them")
    func linesThatDoNotFitAreDropped() {
        var backlog = LineBacklog(limit: 10)
        #expect(Self.add(["12345", "12345", "6", "7"], to: &backlog) == [true, true, false, false])
        #expect(!backlog.isEmpty)
        #expect(Self.rest(of: &backlog) == ["12345", "12345", "(2 dropped)"])
        #expect(Self.rest(of: &backlog).isEmpty)
    }

    @Test("After a drop, lines are accepted again once half of the limit is free, so that one report covers many lines")
    func hysteresis() {
        var backlog = LineBacklog(limit: 40)
        #expect(Self.add(["0123456789", "0123456789", "0123456789", "0123456789", "x"], to: &backlog).last == false)
        _ = backlog.next(report: Self.report)
        #expect(Self.add(["y"], to: &backlog) == [false])
        _ = backlog.next(report: Self.report)
        _ = backlog.next(report: Self.report)
        #expect(Self.add(["z"], to: &backlog) == [true])
        #expect(Self.rest(of: &backlog) == ["0123456789", "(2 dropped)", "z"])
    }

    @Test("A line above the limit is accepted when nothing else waits")
    func longLine() {
        var backlog = LineBacklog(limit: 3)
        #expect(Self.add(["long line", "x"], to: &backlog) == [true, false])
        #expect(Self.rest(of: &backlog) == ["long line", "(1 dropped)"])
    }
}
