import InterlockCore
import Testing

@testable import InterlockLoad

@Suite("Breaker events in a run")
struct BreakerNoticeTests {
    private func notice(state: String = "open", until: Int = 1700, forced: String = "", forcedUntil: Int = 0) -> BreakerNotice? {
        let json = """
            {"v":1,"type":"breaker","origin":"d5","db":0,"at_ms":1600,"service":"search","state":"\(state)","cause":"failures",\
            "until_ms":\(until),"generation":42,"forced":"\(forced)","forced_until_ms":\(forcedUntil)}
            """
        return BreakerNotice(json: Array(json.utf8))
    }

    @Test("A trip has its generation and its end")
    func tripHasGenerationAndEnd() throws {
        let trip = try #require(notice())
        #expect(trip.service == "search")
        #expect(trip.state == .open)
        #expect(trip.generation == 42)
        #expect(trip.endMilliseconds == 1700)
    }

    @Test("An end of 0 means no end")
    func endOf0MeansNoEnd() throws {
        let trip = try #require(notice(until: 0))
        #expect(trip.endMilliseconds == nil)
    }

    @Test("A forced state overrides the breaker's own state")
    func forcedStateOverridesBreakerState() throws {
        let disabled = try #require(notice(forced: "disabled"))
        #expect(disabled.state == .closed)
        let open = try #require(notice(state: "closed", until: 0, forced: "open", forcedUntil: 1900))
        #expect(open.state == .open)
        #expect(open.endMilliseconds == 1900)
    }

    @Test(
        "Other events and invalid ones are ignored", arguments: [#"{"v":1,"type":"fleet.left","origin":"x","db":0}"#, "{", ""])
    func otherEventsAndInvalidOnesAreIgnored(text: String) {
        #expect(BreakerNotice(json: Array(text.utf8)) == nil)
    }
}
