public import InterlockJudge
internal import Glibc

/// When the operations of an open loop are due: a Poisson process, whose gaps are exponentially distributed.
public struct ArrivalSchedule: Sendable {
    private var random: SeededRandom
    private let meanGap: Double
    /// In a fraction of a nanosecond's precision, so that fast rates do not drift.
    private var last = 0.0

    /// - Parameter rate: a second on average; above 0.
    public init(rate: Double, random: SeededRandom) {
        precondition(rate > 0, "a rate is above 0")
        self.random = random
        meanGap = 1e9 / rate
    }

    /// Nanoseconds from the beginning to the next one.
    public mutating func next() -> Int64 {
        last += -log1p(-random.unit()) * meanGap
        // A rate near 0 has gaps that no run outlasts.
        return last < 9e18 ? Int64(last) : .max
    }
}
