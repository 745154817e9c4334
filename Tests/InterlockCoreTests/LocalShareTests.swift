import InterlockCore
import Testing

@Suite("A sidecar's own share while Redis is away")
struct LocalShareTests {
    private let start = Instant(nanoseconds: 0)

    @Test("the share is the limit divided by the sidecars", arguments: [(10, 1, 10), (10, 3, 3), (10, 10, 1)])
    func share(limit: Int64, sidecars: Int, expected: Int64) {
        let share = LocalShare(limit: limit, windowMilliseconds: 1000, sidecars: sidecars)
        #expect(share.limit == expected)
        #expect(share.period == 1000)
    }

    @Test("less than one call a window is spread over as many windows as it takes")
    func spread() {
        let share = LocalShare(limit: 2, windowMilliseconds: 1000, sidecars: 5)
        #expect(share.limit == 1)
        #expect(share.period == 2500)
    }

    @Test("a period begins with its first call and ends a window later")
    func period() {
        var share = LocalShare(limit: 2, windowMilliseconds: 1000, sidecars: 1)
        #expect(share.remaining(now: start) == 2)
        share.take(2, now: start)
        #expect(share.remaining(now: start.advanced(byMilliseconds: 999)) == 0)
        #expect(share.resetAfter(now: start.advanced(byMilliseconds: 999)) == 1)
        #expect(share.remaining(now: start.advanced(byMilliseconds: 1000)) == 2)
    }

    @Test("for any fleet the shares together never exceed the limit in a window")
    func fleetWide() {
        for limit in Int64(1)...40 {
            for sidecars in 1...40 {
                let share = LocalShare(limit: limit, windowMilliseconds: 1000, sidecars: sidecars)
                let perWindow = Double(share.limit) * 1000 / Double(share.period) * Double(sidecars)
                #expect(perWindow <= Double(limit) + 0.001, "limit \(limit), \(sidecars) sidecars")
            }
        }
    }
}
