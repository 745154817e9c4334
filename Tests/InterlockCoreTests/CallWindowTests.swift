import InterlockCore
import Testing

@Suite("How many calls of the proxy may be under way")
struct CallWindowTests {
    private static let short: Int64 = 100_000
    private static let long: Int64 = 2_000_000

    @Test("long turns narrow it from what is under way, down to a few")
    func narrows() {
        var window = CallWindow()
        window.noteTick(nanoseconds: Self.long, inFlight: 800)
        #expect(window.size == 700)
        for _ in 0..<100 { window.noteTick(nanoseconds: Self.long, inFlight: 800) }
        #expect(window.size == CallWindow.least)
    }

    @Test("short turns widen it again, and turns of a fair length leave it as it is")
    func widens() {
        var window = CallWindow()
        for _ in 0..<100 { window.noteTick(nanoseconds: Self.long, inFlight: 800) }
        window.noteTick(nanoseconds: CallWindow.longTick, inFlight: 4)
        #expect(window.size == CallWindow.least)
        var turns = 0
        while window.size < 1000 {
            window.noteTick(nanoseconds: Self.short, inFlight: 4)
            turns += 1
        }
        #expect(turns < 60)
        for _ in 0..<1000 { window.noteTick(nanoseconds: Self.short, inFlight: 4) }
        #expect(window.size == CallWindow.most)
    }
}
