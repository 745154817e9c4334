package import InterlockCore
internal import Glibc

/// The bad phases of an upstream, in which calls fail, so that breakers trip and recover during a run. A seed
/// determines them.
package struct FailurePhases: Hashable, Sendable {
    /// The fraction of calls that fail in a bad phase.
    package var failureFraction: Double
    /// The alternating starts and ends of bad phases, since the start of the run.
    private var boundaryNanoseconds: [Int64] = []

    /// Draws the phases of a run.
    /// - Parameters:
    ///   - good: the range of lengths of a good phase.
    ///   - bad: the range of lengths of a bad phase.
    ///   - length: the period after which the upstream stays good.
    package init(
        good: ClosedRange<Duration> = .seconds(3)...(.seconds(8)), bad: ClosedRange<Duration> = .seconds(1)...(.seconds(2)),
        failureFraction: Double = 0.9, length: Duration, random: SeededRandom
    ) {
        self.failureFraction = failureFraction
        var random = random
        let endNanoseconds = length.nanosecondsRounded
        var timeNanoseconds: Int64 = 0
        // The minimum of one millisecond limits the number of phases in a run.
        func phaseNanoseconds(_ range: ClosedRange<Duration>) -> Int64 {
            max(1_000_000, random.duration(in: range).nanosecondsRounded)
        }
        while true {
            let beginNanoseconds = timeNanoseconds + phaseNanoseconds(good)
            timeNanoseconds = beginNanoseconds + phaseNanoseconds(bad)
            guard timeNanoseconds < endNanoseconds else { break }
            boundaryNanoseconds += [beginNanoseconds, timeNanoseconds]
        }
    }

    /// Returns whether the time is in a bad phase. O(log n) in the number of phases.
    package func isBad(atNanoseconds nanoseconds: Int64) -> Bool {
        var low = 0
        var high = boundaryNanoseconds.count
        while low < high {
            let middle = (low + high) / 2
            if boundaryNanoseconds[middle] <= nanoseconds { low = middle + 1 } else { high = middle }
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
    private let meanGapNanoseconds: Double
    /// The last due time. It has a fraction, so that rounding errors do not accumulate at high rates.
    private var lastNanoseconds = 0.0

    /// Creates a schedule that begins at the start of the run.
    /// - Parameter rate: the average number of operations per second; above 0.
    package init(rate: Double, random: SeededRandom) {
        precondition(rate > 0, "the rate must be above 0")
        self.random = random
        meanGapNanoseconds = 1e9 / rate
    }

    /// Returns the next due time in nanoseconds since the start of the run.
    package mutating func next() -> Int64 {
        lastNanoseconds += -log1p(-random.unit()) * meanGapNanoseconds
        // A gap may exceed the range of `Int64` if the rate is near 0.
        return lastNanoseconds < 9e18 ? Int64(lastNanoseconds) : .max
    }
}
