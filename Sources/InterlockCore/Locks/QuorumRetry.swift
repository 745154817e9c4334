/// The retry times of callers of a quorum lock. Pauses are random, so that two callers that each took some of the
/// servers do not collide again.
package enum QuorumRetry {
    /// The range of the pause between two attempts, in milliseconds.
    package static let pauseRangeMilliseconds: ClosedRange<Int64> = 50...250
    /// The shortest pause, in milliseconds, after which another attempt before the deadline is worthwhile.
    private static let minimumPauseMilliseconds: Int64 = 5

    /// Returns the time of the next attempt of a caller that waits until `deadline`. Pauses become shorter near it.
    /// - Parameter random: a number in 0…1.
    /// - Returns: `nil` if too little time is left for another attempt.
    package static func nextAttempt(after now: Instant, deadline: Instant, random: Double) -> Instant? {
        let remainingMilliseconds = deadline.millisecondsRoundedUp(since: now)
        let spanMilliseconds = Double(pauseRangeMilliseconds.upperBound - pauseRangeMilliseconds.lowerBound)
        let pauseMilliseconds = min(
            pauseRangeMilliseconds.lowerBound + Int64((spanMilliseconds * random).rounded()), remainingMilliseconds / 2)
        return pauseMilliseconds < minimumPauseMilliseconds ? nil : now.advanced(byMilliseconds: pauseMilliseconds)
    }

    /// The maximum number of attempts by a caller that does not wait, if concurrent callers block each other.
    package static let maximumAttempts = 4

    /// Returns the time of the next attempt of a caller that does not wait, after concurrent callers blocked each
    /// other. The pause is random in a span of several times the duration of an attempt, so that one caller finishes
    /// before the other begins. The span doubles with each attempt.
    /// - Parameters:
    ///   - attemptNanoseconds: the duration of the last attempt, in nanoseconds.
    ///   - attempts: the number of attempts so far, 1 or more.
    ///   - random: a number in 0…1.
    package static func nextAttempt(
        after now: Instant, took attemptNanoseconds: Int64, attempts: Int, random: Double
    ) -> Instant {
        let spanNanoseconds = min(
            Double(max(attemptNanoseconds, 1_000_000)) * 4 * Double(1 << min(attempts - 1, 8)),
            Double(pauseRangeMilliseconds.upperBound) * 1e6)
        return now.advanced(byMilliseconds: Int64((spanNanoseconds * random / 1e6).rounded(.up)))
    }

    /// Returns how long to wait for the servers' replies. The timeout is far below the TTL, so that waiting for an
    /// unreachable server uses up little of the lease. All times are in milliseconds.
    package static func timeoutMilliseconds(ttlMilliseconds: Int64, maximumMilliseconds: Int64) -> Int64 {
        min(maximumMilliseconds, max(10, ttlMilliseconds / 10))
    }
}
