import InterlockCore

import Testing

@testable import InterlockLoad

@Suite("Arrivals of an open loop")
struct ArrivalScheduleTests {
    private func gaps(rate: Double, count: Int) -> [Double] {
        var schedule = ArrivalSchedule(rate: rate, random: SeededRandom(seed: 11))
        var last: Int64 = 0
        return (0..<count).map { _ in
            let next = schedule.next()
            defer { last = next }
            return Double(next - last) / 1e9
        }
    }

    @Test("Arrivals have the configured rate on average", arguments: [0.5, 1000, 1_000_000])
    func arrivalsHaveConfiguredRateOnAverage(rate: Double) {
        let gaps = gaps(rate: rate, count: 100_000)
        let mean = gaps.reduce(0, +) / Double(gaps.count)
        // The mean of 100,000 gaps has a standard deviation of a third of a percent.
        #expect(abs(mean * rate - 1) < 0.015)
    }

    @Test("Gaps are those of independent callers: one in e is longer than the mean")
    func callersArriveIndependently() {
        let gaps = gaps(rate: 1000, count: 100_000)
        func fraction(longerThan multiple: Double) -> Double {
            Double(gaps.count { $0 > multiple / 1000 }) / Double(gaps.count)
        }
        #expect(abs(fraction(longerThan: 1) - 0.3679) < 0.006)
        #expect(abs(fraction(longerThan: 3) - 0.0498) < 0.003)
    }

    @Test("No arrival precedes the one before it")
    func order() {
        #expect(gaps(rate: 5_000_000, count: 100_000).allSatisfy { $0 >= 0 })
    }
}
