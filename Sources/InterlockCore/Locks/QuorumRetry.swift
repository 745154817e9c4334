/// The retry times of a caller that waits for a quorum lock. Pauses are random, so that two callers that each took some
/// of the servers do not collide again.
package enum QuorumRetry {
    /// The range of pauses in milliseconds.
    package static let pauses: ClosedRange<Int64> = 50...250
    /// The pause, in milliseconds, below which no further attempt is made before the wait ends.
    static let minimumPause: Int64 = 5

    /// Returns the next attempt of a caller that waits until `deadline`, with shorter pauses near it; `nil` if no time
    /// is left for one.
    /// - Parameter random: a number in 0…1.
    package static func nextAttempt(after now: Instant, deadline: Instant, random: Double) -> Instant? {
        let left = deadline.millisecondsRoundedUp(since: now)
        let span = Double(pauses.upperBound - pauses.lowerBound)
        let pause = min(pauses.lowerBound + Int64((span * random).rounded()), left / 2)
        return pause < minimumPause ? nil : now.advanced(byMilliseconds: pause)
    }

    /// The maximum number of attempts by a caller that does not wait, when concurrent callers block each other.
    package static let maximumAttempts = 4

    /// Returns the next attempt of a caller that does not wait. Two callers that blocked each other both took about
    /// `took` nanoseconds. The pause is random in a span several times that, which doubles with each attempt, so that
    /// one of them finishes before the other begins.
    /// - Parameters:
    ///   - attempts: the number of attempts so far, 1 or more.
    ///   - random: a number in 0…1.
    package static func nextAttempt(after now: Instant, took: Int64, attempts: Int, random: Double) -> Instant {
        let span = min(Double(max(took, 1_000_000)) * 4 * Double(1 << min(attempts - 1, 8)), Double(pauses.upperBound) * 1e6)
        return now.advanced(byMilliseconds: Int64((span * random / 1e6).rounded(.up)))
    }

    /// Returns the timeout of the servers' answers for a lease of `ttl` milliseconds, in milliseconds. It is far below
    /// the TTL, so that waiting for an unreachable server uses up little of the lease.
    package static func timeout(ttl: Int64, maximum: Int64) -> Int64 {
        min(maximum, max(10, ttl / 10))
    }
}
