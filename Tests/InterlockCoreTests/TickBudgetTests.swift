import InterlockCore
import Testing

@Suite("The time budget of a tick")
struct TickBudgetTests {
    private static let microsecond: Int64 = 1_000

    @Test("A slice ends after 250 microseconds")
    func sliceEnds() {
        var budget = TickBudget()
        budget.begin(nowNanoseconds: 0)
        #expect(budget.mayContinue(nowNanoseconds: 249 * Self.microsecond))
        #expect(!budget.mayContinue(nowNanoseconds: 250 * Self.microsecond))
        let isUsedUp = budget.end(nowNanoseconds: 250 * Self.microsecond)
        #expect(isUsedUp)
    }

    @Test("A slice that ends early is not counted as used up")
    func lightSlice() {
        var budget = TickBudget()
        budget.begin(nowNanoseconds: 0)
        let isUsedUp = budget.end(nowNanoseconds: 249 * Self.microsecond)
        #expect(!isUsedUp)
    }

    @Test("All slices of a tick have half a millisecond together")
    func tickEnds() {
        var budget = TickBudget()
        var now: Int64 = 0
        var slices = 0
        while budget.hasTimeLeft {
            budget.begin(nowNanoseconds: now)
            now += 100 * Self.microsecond
            _ = budget.end(nowNanoseconds: now)
            slices += 1
        }
        #expect((4...5).contains(slices))
        budget.tickEnded()
        #expect(budget.hasTimeLeft)
    }

    @Test("A slice ends with its tick")
    func sliceEndsWithTick() {
        var budget = TickBudget()
        budget.charge(TickBudget.maximumTickNanoseconds - 100 * Self.microsecond)
        budget.begin(nowNanoseconds: 0)
        #expect(budget.mayContinue(nowNanoseconds: 99 * Self.microsecond))
        #expect(!budget.mayContinue(nowNanoseconds: 100 * Self.microsecond))
        // The client is not charged for the time that others used.
        let isUsedUp = budget.end(nowNanoseconds: 100 * Self.microsecond)
        #expect(!isUsedUp)
    }

    @Test("A clock that stops or goes back consumes no budget")
    func clockGoesBack() {
        var budget = TickBudget()
        budget.begin(nowNanoseconds: 1_000)
        #expect(budget.mayContinue(nowNanoseconds: 0))
        _ = budget.end(nowNanoseconds: 0)
        #expect(budget.hasTimeLeft)
    }

    @Test("Without a slice no work continues")
    func noSlice() {
        var budget = TickBudget()
        #expect(!budget.mayContinue(nowNanoseconds: 0))
        let isUsedUp = budget.end(nowNanoseconds: 0)
        #expect(!isUsedUp)
    }
}
