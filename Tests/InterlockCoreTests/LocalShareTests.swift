import InterlockCore
import Testing

@Suite("A sidecar's own share while Redis is away")
struct LocalShareTests {
    private let start = Instant(nanoseconds: 0)

    private func perSecond(_ limit: Int64, _ algorithm: LimitAlgorithm = .fixed) -> LimitDefinition {
        LimitDefinition(name: "1s", limit: limit, window: .seconds(1), algorithm: algorithm)
    }

    @Test("the share is the limit divided by the sidecars", arguments: [(10, 1, 10), (10, 3, 3), (10, 10, 1)])
    func share(limit: Int64, sidecars: Int, expected: Int64) {
        let share = LocalShare(of: perSecond(limit), sidecars: sidecars)
        #expect(share.capacity == expected)
        #expect(share.period == 1000)
    }

    @Test("less than one call a window is spread over as many windows as it takes")
    func spread() {
        let share = LocalShare(of: perSecond(2), sidecars: 5)
        #expect(share.capacity == 1)
        #expect(share.period == 2500)
    }

    @Test("a period begins with its first call and ends a window later")
    func period() {
        var share = LocalShare(of: perSecond(2), sidecars: 1)
        #expect(share.taken(now: start) == 0)
        share.take(2, now: start)
        #expect(share.taken(now: start.advanced(byMilliseconds: 999)) == 2)
        #expect(share.resetAfter(now: start.advanced(byMilliseconds: 999)) == 1)
        #expect(share.taken(now: start.advanced(byMilliseconds: 1000)) == 0)
    }

    @Test("for any fleet the shares together never exceed the limit in a window")
    func fleetWide() {
        for limit in Int64(1)...40 {
            for sidecars in 1...40 {
                let share = LocalShare(of: perSecond(limit), sidecars: sidecars)
                let perWindow = Double(share.capacity) * 1000 / Double(share.period) * Double(sidecars)
                #expect(perWindow <= Double(limit) + 0.001, "limit \(limit), \(sidecars) sidecars")
            }
        }
    }
}
