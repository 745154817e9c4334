package import FoundationEssentials

/// A point on the monotonic clock that also counts suspended time, in nanoseconds since an arbitrary start.
///
/// Decisions take an `Instant` as an argument instead of reading a clock. `Instant` is an integer, because the 128-bit
/// arithmetic of `ContinuousClock.Instant` is measurable on the hot path. Both count the same clock.
package struct Instant: Hashable, Comparable, Codable, Sendable {
    /// The nanoseconds since the clock's start.
    package var nanoseconds: Int64

    @inlinable
    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// An instant that the clock never reaches.
    package static let distantFuture = Instant(nanoseconds: .max)

    @inlinable
    package static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// Returns the instant `milliseconds` later; saturates at `distantFuture`.
    @inlinable
    package func advanced(byMilliseconds milliseconds: Int64) -> Instant {
        advanced(by: milliseconds, ofNanoseconds: 1_000_000)
    }

    /// Returns the instant `microseconds` later; saturates at `distantFuture`.
    @inlinable
    package func advanced(byMicroseconds microseconds: Int64) -> Instant {
        advanced(by: microseconds, ofNanoseconds: 1000)
    }

    /// Returns the instant `count` units later, each of `unit` nanoseconds; saturates in both directions.
    @inlinable
    package func advanced(by count: Int64, ofNanoseconds unit: Int64) -> Instant {
        let (delta, overflow) = count.multipliedReportingOverflow(by: unit)
        let (sum, sumOverflow) = nanoseconds.addingReportingOverflow(delta)
        guard !overflow, !sumOverflow else { return count > 0 ? .distantFuture : Instant(nanoseconds: .min) }
        return Instant(nanoseconds: sum)
    }

    /// Returns the whole milliseconds from `earlier` to this instant, rounded up so that a wait of that length is never
    /// too short.
    @inlinable
    package func millisecondsRoundedUp(since earlier: Instant) -> Int64 {
        let (difference, overflow) = nanoseconds.subtractingReportingOverflow(earlier.nanoseconds)
        guard !overflow else { return self < earlier ? .min / 1_000_000 : .max / 1_000_000 }
        return difference <= 0 ? difference / 1_000_000 : (difference - 1) / 1_000_000 + 1
    }
}

extension Duration {
    /// The whole milliseconds, rounded towards zero; saturates.
    package var wholeMilliseconds: Int64 {
        // 10^15 is 2^15 * 5^15, and a division by 5^15 needs no 128-bit arithmetic for times up to three days.
        if let shifted = Int64(exactly: attoseconds >> 15), shifted >= 0 { return shifted / 30_517_578_125 }
        let (seconds, attoseconds) = components
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds > 0 ? .max : .min }
        return milliseconds &+ attoseconds / 1_000_000_000_000_000
    }
}

extension Date {
    /// Creates a date from Unix time in milliseconds.
    package init(epochMilliseconds: Int64) {
        self.init(timeIntervalSince1970: Double(epochMilliseconds) / 1000)
    }
}
