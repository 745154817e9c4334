import InterlockCore
import Testing

@Suite("The number of proxied calls in progress")
struct CallWindowTests {
    private static let short: Int64 = 100_000
    private static let long: Int64 = 2_000_000

    @Test("Long ticks narrow the window step by step down to a minimum")
    func narrows() {
        var window = CallWindow()
        window.recordTick(nanoseconds: Self.long, inFlight: 800)
        #expect(window.size == 700)
        for _ in 0..<100 { window.recordTick(nanoseconds: Self.long, inFlight: 800) }
        #expect(window.size == CallWindow.minimumSize)
    }

    @Test("Short ticks widen the window again, and ticks of normal length leave it unchanged")
    func shortTicksWidenWindowAgain() {
        var window = CallWindow()
        for _ in 0..<100 { window.recordTick(nanoseconds: Self.long, inFlight: 800) }
        window.recordTick(nanoseconds: CallWindow.longTickNanoseconds, inFlight: 4)
        #expect(window.size == CallWindow.minimumSize)
        var ticks = 0
        while window.size < 1000 {
            window.recordTick(nanoseconds: Self.short, inFlight: 4)
            ticks += 1
        }
        #expect(ticks < 60)
        for _ in 0..<1000 { window.recordTick(nanoseconds: Self.short, inFlight: 4) }
        #expect(window.size == CallWindow.maximumSize)
    }
}
