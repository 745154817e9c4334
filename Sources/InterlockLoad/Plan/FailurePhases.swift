package import InterlockCore
internal import Glibc

/// The phases in which an upstream fails calls, drawn from a seed, so that breakers trip and recover during a run.
package struct FailurePhases: Hashable, Sendable {
    /// The fraction of calls that fail in a bad phase.
    package var failures: Double
    /// The alternating starts and ends of bad phases, in nanoseconds since the start of the run.
    private var boundaries: [Int64] = []

    /// - Parameters:
    ///   - good: the range of lengths of a good phase.
    ///   - bad: the range of lengths of a bad phase.
    ///   - length: the period after which the upstream stays good.
    package init(
        good: ClosedRange<Duration> = .seconds(3)...(.seconds(8)), bad: ClosedRange<Duration> = .seconds(1)...(.seconds(2)),
        failures: Double = 0.9, length: Duration, random: SeededRandom
    ) {
        self.failures = failures
        var random = random
        let end = length.nanosecondsRounded
        var time: Int64 = 0
        // The minimum of one millisecond bounds the list by the length of the run.
        func phase(_ range: ClosedRange<Duration>) -> Int64 { max(1_000_000, random.duration(in: range).nanosecondsRounded) }
        while true {
            let begin = time + phase(good)
            time = begin + phase(bad)
            guard time < end else { break }
            boundaries += [begin, time]
        }
    }

    /// Returns whether the time is in a bad phase. O(log n) in the number of phases.
    package func isBad(atNanoseconds time: Int64) -> Bool {
        var low = 0
        var high = boundaries.count
        while low < high {
            let middle = (low + high) / 2
            if boundaries[middle] <= time { low = middle + 1 } else { high = middle }
        }
        return low % 2 == 1
    }
}

extension SeededRandom {
    /// Returns a duration drawn uniformly from the range.
    mutating func duration(in range: ClosedRange<Duration>) -> Duration {
        range.lowerBound + (range.upperBound - range.lowerBound) * unit()
    }
}

extension Duration {
    /// The duration in nanoseconds, rounded toward zero and clamped to the range of `Int64`.
    var nanosecondsRounded: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds > 0 ? .max : .min }
        return whole &+ attoseconds / 1_000_000_000
    }
}

/// The due times of an open loop: a Poisson process, whose gaps are exponentially distributed.
package struct ArrivalSchedule: Sendable {
    private var random: SeededRandom
    private let meanGap: Double
    /// The last due time in fractional nanoseconds, so that rounding does not accumulate at high rates.
    private var last = 0.0

    /// - Parameter rate: the average number of operations per second; above 0.
    package init(rate: Double, random: SeededRandom) {
        precondition(rate > 0, "the rate must be above 0")
        self.random = random
        meanGap = 1e9 / rate
    }

    /// Returns the next due time in nanoseconds since the start of the run.
    package mutating func next() -> Int64 {
        last += -log1p(-random.unit()) * meanGap
        // A gap may exceed the range of `Int64` if the rate is near 0.
        return last < 9e18 ? Int64(last) : .max
    }
}
