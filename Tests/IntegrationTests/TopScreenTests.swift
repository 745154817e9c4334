import SidecarConsole
import SidecarListeners
import Testing

@testable import InterlockCLI

@Suite("Screen of `interlock top`")
struct TopScreenTests {
    private static func frame(_ parts: String) throws -> TopFrame {
        try TopFrame(
            #"{"now_ms":100000,"sidecar":{"id":"a1","host":"vm","version":"1","fleet":1,"services":0,"breakers":[],"#
                + #""breakers_not_closed":0,"locks_held":1,"locks_waiting":0,"permits_under_way":0,"calls_waiting":0,"#
                + #""redis":{"up":true,"address":"redis://r","failure":null}},\#(parts)}"#)
    }

    private static func locks(_ names: [String]) throws -> TopFrame {
        let rows = names.enumerated().map { index, name in
            #"{"name":"\#(name)","label":"l\#(index)","holders":1,"fence":\#(index),"ttl_ms":\#(5000 - index),"at_ms":100000,"#
                + #""mode":"exclusive","permits":null,"waiters":0}"#
        }
        return try frame(#""locks":{"at_ms":99000,"failure":null,"cursor":"7","locks":[\#(rows.joined(separator: ","))]}"#)
    }

    private static func names(_ screen: TopScreen) -> [String] {
        screen.page(columns: nil).drop { !$0.hasPrefix("LOCK") }.dropFirst().map { String($0.prefix { $0 != " " }) }
    }

    @Test(
        "The former column names still sort",
        arguments: [
            (LiveView.Name.locks, "age", "updated"), (.overview, "differs", "configured"), (.services, "failed", "failing"),
            (.services, "underway", "in progress"), (.services, "under way", "in progress"),
            (.events, "type", "event"),
        ])
    func formerColumnNamesStillSort(view: LiveView.Name, former: String, present: String) {
        let model = ViewModel.main(of: view)
        #expect(model.column(former) != nil && model.column(former) == model.column(present))
    }

    @Test("Keys are parsed from bytes, several at a time, and unknown ones are skipped")
    func keysAreParsedFromBytes() {
        #expect(TopKey.keys(Array("q\u{1B}[A\u{1B}[6~\r\u{7F}".utf8)) == [.character("q"), .up, .pageDown, .enter, .erase])
        #expect(TopKey.keys([0x1B]) == [.back])
        #expect(TopKey.keys(Array("\u{1B}[1;5Cé\u{01}".utf8)) == [.character("é")])
        #expect(TopKey.keys([0xFF, 0xFE]).count == 2)
        #expect(TopKey.keys([]).isEmpty)
    }

    @Test("A lock held for a long time sorts before one held briefly")
    func held() throws {
        func grant(_ name: String, _ granted: Int, _ ended: String) -> String {
            #"{"name":"\#(name)","label":"l","fence":1,"mode":"exclusive","permits":null,"waited_ms":0,"granted_ms":\#(granted),"#
                + #""ended_ms":\#(ended),"end":null}"#
        }
        var screen = TopScreen(query: TopQuery(view: .grants), sort: ViewModel.grants.column("held"), isReversed: true)
        let grants = [grant("short", 99_000, "99005"), grant("long", 10_000, "null"), grant("other", 50_000, "60000")]
        screen.show(try Self.frame(#""grants":{"grants":[\#(grants.joined(separator: ","))]}"#))
        let rows = screen.page(columns: nil).drop { !$0.hasPrefix("GRANTED") }.dropFirst()
        #expect(rows.compactMap { row in ["short", "long", "other"].first { row.contains($0) } } == ["long", "other", "short"])
    }

    @Test("Each kind of value is formatted, and rows of an older sidecar are formatted the same way")
    func eachKindOfValueIsFormatted() throws {
        var screen = TopScreen(query: TopQuery(view: .services))
        screen.show(
            try Self.frame(
                #""services":{"from":0,"total":1,"services":[{"service":"search","state":"open","cause":"failures","until_ms":101000,"#
                    + #""failure_rate":0.5,"slow_rate":0,"under_way":2,"waiting":0,"minute":{"calls_taken":7,"calls_limited":1},"#
                    + #""probe":{"prober":"this","finding":"bad","reason":"status 500","at_ms":97000}}]}"#))
        let lines = screen.page(columns: nil)
        #expect(lines.contains("Services 1 to 1 of 1"))
        let row = try #require(lines.first { $0.hasPrefix("search") }).split(separator: " ", omittingEmptySubsequences: true)
        #expect(row.prefix(8) == ["search", "open", "50%", "0%", "2", "0", "7", "1"])
        #expect(row.dropFirst(8).joined(separator: " ") == "failures 1970-01-01T00:01:41.000Z bad: status 500, 3.0s ago")
    }

    @Test("The overview shows limits that refuse calls, and configurations that differ")
    func overviewShowsLimitsThatRefuseCalls() throws {
        var screen = TopScreen(query: TopQuery(view: .overview))
        screen.show(try Self.frame(#""fleet":{"at_ms":99000,"failure":null,"sidecars":[]}"#))
        #expect(screen.page(columns: nil).contains("All breakers are closed."))
        #expect(!screen.page(columns: nil).contains { $0.hasPrefix("Limits that") || $0.hasPrefix("Sidecars have different") })
        screen.show(
            try TopFrame(
                #"{"now_ms":100000,"sidecar":{"breakers":[],"services_differing":["mail","search"],"redis":{"up":true},"#
                    + #""limited":[{"service":"search","calls_limited":4,"calls_taken":20}]}}"#))
        let lines = screen.page(columns: nil)
        #expect(lines.contains("Sidecars have different configurations of: mail, search"))
        let title = try #require(lines.firstIndex(of: "Limits that refused calls in the last minute"))
        #expect(lines[title + 2].split(separator: " ") == ["search", "4", "20"])
    }

    @Test("Rows sort by a column in both directions, and the query contains search, selection and page")
    func keyPresses() throws {
        var screen = TopScreen(query: TopQuery(view: .locks))
        screen.show(try Self.locks(["b", "a", "c"]))
        #expect(Self.names(screen) == ["b", "a", "c"])
        _ = screen.press(.character("s"), rows: 24)
        #expect(Self.names(screen) == ["a", "b", "c"])
        _ = screen.press(.character("r"), rows: 24)
        #expect(Self.names(screen) == ["c", "b", "a"])
        _ = screen.press(.down, rows: 24)
        _ = screen.press(.enter, rows: 24)
        #expect(screen.query.words == ["lock", "NAME", "b"])
        _ = screen.press(.back, rows: 24)
        #expect(screen.query.words == ["locks"])
        screen.show(try Self.locks(["b", "a", "c"]))
        for key in [TopKey.character("/"), .character("x"), .character("q"), .enter] {
            let quits = screen.press(key, rows: 24)
            #expect(!quits)
        }
        #expect(screen.query.words == ["locks", "SEARCH", "xq"])
        _ = screen.press(.character("n"), rows: 24)
        #expect(screen.query.words == ["locks", "SEARCH", "xq", "CURSOR", "7"])
        _ = screen.press(.character("p"), rows: 24)
        #expect(screen.query.words == ["locks", "SEARCH", "xq"])
        let quits = screen.press(.character("q"), rows: 24)
        #expect(quits)
    }

    @Test("A screen of any size has a line for each row, and each line fits", arguments: [1, 2, 5, 24, 60])
    func screenHasOneFittingLinePerRow(rows: Int) throws {
        for columns in [1, 7, 20, 80, 300] {
            for view in LiveView.Name.allCases {
                var screen = TopScreen(query: TopQuery(view: view, name: "a"))
                let empty = screen.lines(columns: columns, rows: rows)
                #expect(empty.count == rows)
                screen.show(try Self.locks((0..<100).map { "lock-\($0)-\u{4E2D}\u{6587}" }))
                _ = screen.press(.end, rows: rows)
                let lines = screen.lines(columns: columns, rows: rows)
                #expect(lines.count == rows)
                #expect(lines.allSatisfy { TopTerminal.width($0.text) <= columns })
            }
        }
    }

    @Test("The selected row stays visible")
    func selectedRowStaysVisible() throws {
        var screen = TopScreen(query: TopQuery(view: .locks))
        screen.show(try Self.locks((0..<100).map { "lock-\($0)" }))
        func selectedName() -> String? {
            screen.lines(columns: 80, rows: 12).dropLast().first { $0.style == .reverse }.map {
                String($0.text.prefix { $0 != " " })
            }
        }
        #expect(selectedName() == "lock-0")
        for _ in 0..<50 { _ = screen.press(.down, rows: 12) }
        #expect(selectedName() == "lock-50")
        _ = screen.press(.home, rows: 12)
        #expect(selectedName() == "lock-0")
        _ = screen.press(.end, rows: 12)
        #expect(selectedName() == "lock-99")
        screen.show(try Self.locks(["lock-0"]))
        #expect(selectedName() == "lock-0")
    }

    @Test("Control characters never reach the terminal")
    func hostileText() throws {
        var screen = TopScreen(query: TopQuery(view: .locks))
        screen.show(try Self.locks([#"\u001b[2Jevil\u0007"#, #"\u202eback"#]))
        screen.errorMessage = "\u{1B}]0;title\u{07}"
        let lines = screen.lines(columns: 80, rows: 24).map(\.text)
        #expect(lines.allSatisfy { line in line.unicodeScalars.allSatisfy { !$0.properties.isBidiControl && $0.value >= 0x20 } })
        #expect(lines.contains { $0.contains("[2Jevil") })
    }
}
