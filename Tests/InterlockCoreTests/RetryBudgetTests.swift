import InterlockCore
import Testing

@Suite("Retry budget")
struct RetryBudgetTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func budget(_ fraction: Double, perSecond: Int) -> RetryBudget {
        RetryBudget(settings: RetrySettings(attempts: 1, budget: fraction, minimumPerSecond: perSecond))
    }

    /// Returns the number of retries that are allowed in a row.
    private func retries(of budget: inout RetryBudget, at now: Instant, upTo maximum: Int = 1000) -> Int {
        var count = 0
        while count < maximum, budget.takeRetry(now: now) { count += 1 }
        return count
    }

    @Test("Retries are at most the configured fraction of the calls")
    func fractionOfCalls() {
        var budget = budget(0.1, perSecond: 0)
        for _ in 0..<50 { budget.countCall() }
        #expect(retries(of: &budget, at: start) == 5)
    }

    @Test("Without calls only the minimum of retries is allowed")
    func minimum() {
        var budget = budget(0.1, perSecond: 3)
        #expect(retries(of: &budget, at: start) == 3)
    }

    @Test("The minimum refills over time, up to one second's worth")
    func minimumRefillsOverTime() {
        var budget = budget(0.1, perSecond: 2)
        #expect(retries(of: &budget, at: start) == 2)
        #expect(retries(of: &budget, at: start.advanced(byMilliseconds: 499)) == 0)
        #expect(retries(of: &budget, at: start.advanced(byMilliseconds: 1000)) == 2)
        #expect(retries(of: &budget, at: start.advanced(byMilliseconds: 60_000)) == 2)
    }

    @Test("The unused budget of a quiet hour cannot be spent in one burst")
    func bounded() {
        var budget = budget(1, perSecond: 0)
        for _ in 0..<100_000 { budget.countCall() }
        #expect(retries(of: &budget, at: start) == Int(RetryBudget.maximumSavings))
    }

    @Test("A stopped clock adds nothing")
    func stoppedClockAddsNothing() {
        var budget = budget(0.1, perSecond: 1)
        #expect(retries(of: &budget, at: start) == 1)
        #expect(retries(of: &budget, at: start) == 0)
        #expect(retries(of: &budget, at: Instant(nanoseconds: 0)) == 0)
    }
}
