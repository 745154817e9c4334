import InterlockCore
import Testing

@Suite("W3C Trace Context")
struct TraceContextTests {
    private static let example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test("The standard's example is read and written back unchanged")
    func standardExampleIsReadAndWrittenBackUnchanged() throws {
        let context = try #require(TraceContext(traceparent: Self.example, state: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"))
        #expect(context.traceID.text == "0af7651916cd43dd8448eb211c80319c")
        #expect(context.spanID == 0xB7AD_6B71_6920_3331)
        #expect(context.isSampled)
        #expect(context.state == "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
        #expect(context.traceparent == Self.example)
        #expect(TraceContext(traceparent: Self.example.dropLast() + "0")?.isSampled == false)
        #expect(TraceContext(traceparent: Self.example.dropLast(2) + "ff")?.isSampled == true)
    }

    @Test("A later version may have additional fields")
    func laterVersions() {
        let later = "cc" + Self.example.dropFirst(2)
        #expect(TraceContext(traceparent: later) != nil)
        #expect(TraceContext(traceparent: later + "-what-the-future-says") != nil)
        #expect(TraceContext(traceparent: later + ".what") == nil)
    }

    @Test(
        "An invalid traceparent is ignored",
        arguments: [
            "", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01", "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319\u{E9}-b7ad6b7169203331-01",
        ])
    func invalidTraceparentIsIgnored(text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test("A tracestate longer than vendors must propagate is dropped, and leading zeros are written")
    func longTracestate() throws {
        let context = try #require(
            TraceContext(
                traceparent: "00-00000000000000010000000000000002-0000000000000003-00", state: String(repeating: "a", count: 513))
        )
        #expect(context.state.isEmpty)
        #expect(context.traceparent == "00-00000000000000010000000000000002-0000000000000003-00")
    }
}
