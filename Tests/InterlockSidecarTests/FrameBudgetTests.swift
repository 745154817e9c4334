import Testing

@testable import SidecarListeners

@Suite("Frame budget of a client")
struct FrameBudgetTests {
    private static let second: Int64 = 1_000_000_000

    @Test("A client that requests nothing may send a thousand frames a second over a long time")
    func idle() {
        var nowNanoseconds: Int64 = 0
        var budget = FrameBudget(nowNanoseconds: nowNanoseconds)
        var frames = 0
        while nowNanoseconds < 10 * Self.second {
            // Each read receives a hundred frames.
            for _ in 0..<100 { budget.spend() }
            frames += 100
            if budget.isSpent { nowNanoseconds += budget.pauseNanoseconds(nowNanoseconds: nowNanoseconds) }
        }
        #expect((10_000...10_800).contains(frames))
    }

    @Test("A client with long messages waits for the bytes beyond its responses")
    func clientWithLongMessagesWaitsForBytesBeyondResponses() {
        var budget = FrameBudget(nowNanoseconds: 0)
        for _ in 0..<10_000 {
            // Each message has 24 KB, and a frame each for its head and its end.
            budget.spend(2)
            budget.spend(messageOf: 24 << 10)
            budget.earn()
            #expect(!budget.isSpent)
        }
        for _ in 0..<4 { budget.spend(messageOf: 1 << 20) }
        #expect(budget.isSpent)
        #expect(budget.pauseNanoseconds(nowNanoseconds: 0) > 0)
    }

    @Test("A client whose calls are answered never waits")
    func clientWhoseCallsAreAnsweredNeverWaits() {
        var budget = FrameBudget(nowNanoseconds: 0)
        for _ in 0..<10_000 {
            for _ in 0..<20 * 3 { budget.spend() }
            for _ in 0..<20 { budget.earn() }
            #expect(!budget.isSpent)
        }
    }

    @Test("Unused budget carries over for one second")
    func unusedBudgetCarriesOverForOneSecond() {
        var budget = FrameBudget(nowNanoseconds: 0)
        _ = budget.pauseNanoseconds(nowNanoseconds: 1000 * Self.second)
        for _ in 0..<999 { budget.spend() }
        #expect(!budget.isSpent)
        budget.spend()
        #expect(budget.isSpent)
        #expect(budget.pauseNanoseconds(nowNanoseconds: 1000 * Self.second) == Self.second / 1000)
    }
}
