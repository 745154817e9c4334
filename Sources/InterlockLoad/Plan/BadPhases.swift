package import InterlockCore
internal import Glibc

/// When an upstream is bad: spans of time that a seed decides, so that breakers trip and recover during a run.
package struct BadPhases: Hashable, Sendable {
    /// What share of calls fails while it is bad.
    package var failures: Double
    /// When it turns bad and good again, by turns: nanoseconds from the beginning.
    private var turns: [Int64] = []

    /// - Parameters:
    ///   - good: for how long it is good at a time.
    ///   - bad: for how long it is bad at a time.
    ///   - length: after which it stays good.
    package init(
        good: ClosedRange<Duration> = .seconds(3)...(.seconds(8)), bad: ClosedRange<Duration> = .seconds(1)...(.seconds(2)),
        failures: Double = 0.9, length: Duration, random: SeededRandom
    ) {
        self.failures = failures
        var random = random
        let end = length.nanosecondsRounded
        var time: Int64 = 0
        // Every phase takes a millisecond at least: the list is bounded by the run's length.
        func phase(_ range: ClosedRange<Duration>) -> Int64 { max(1_000_000, random.duration(in: range).nanosecondsRounded) }
        while true {
            let begin = time + phase(good)
            time = begin + phase(bad)
            guard time < end else { break }
            turns += [begin, time]
        }
    }

    /// O(log n) in phases.
    package func isBad(atNanoseconds time: Int64) -> Bool {
        var low = 0
        var high = turns.count
        while low < high {
            let middle = (low + high) / 2
            if turns[middle] <= time { low = middle + 1 } else { high = middle }
        }
        return low % 2 == 1
    }
}

extension SeededRandom {
    /// Evenly spread over the range.
    mutating func duration(in range: ClosedRange<Duration>) -> Duration {
        range.lowerBound + (range.upperBound - range.lowerBound) * unit()
    }
}

extension Duration {
    /// Saturates.
    var nanosecondsRounded: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds > 0 ? .max : .min }
        return whole &+ attoseconds / 1_000_000_000
    }
}

/// When the operations of an open loop are due: a Poisson process, whose gaps are exponentially distributed.
package struct ArrivalSchedule: Sendable {
    private var random: SeededRandom
    private let meanGap: Double
    /// In a fraction of a nanosecond's precision, so that fast rates do not drift.
    private var last = 0.0

    /// - Parameter rate: a second on average; above 0.
    package init(rate: Double, random: SeededRandom) {
        precondition(rate > 0, "a rate is above 0")
        self.random = random
        meanGap = 1e9 / rate
    }

    /// Nanoseconds from the beginning to the next one.
    package mutating func next() -> Int64 {
        last += -log1p(-random.unit()) * meanGap
        // A rate near 0 has gaps that no run outlasts.
        return last < 9e18 ? Int64(last) : .max
    }
}
