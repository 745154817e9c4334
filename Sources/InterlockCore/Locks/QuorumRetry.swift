/// When a waiter for a quorum lock tries again: after a random pause, so that two who took a part of the servers each do not
/// meet again.
package enum QuorumRetry {
    /// The pause in milliseconds.
    package static let pauses: ClosedRange<Int64> = 50...250
    /// Nobody tries again so shortly before the end of the wait.
    static let shortestPause: Int64 = 5

    /// The next attempt of somebody who waits until `deadline`; near it the pauses get shorter. `nil`: there is no time left
    /// for another.
    /// - Parameter random: in 0…1.
    package static func nextAttempt(after now: Instant, deadline: Instant, random: Double) -> Instant? {
        let left = deadline.millisecondsRoundedUp(since: now)
        let span = Double(pauses.upperBound - pauses.lowerBound)
        let pause = min(pauses.lowerBound + Int64((span * random).rounded()), left / 2)
        return pause < shortestPause ? nil : now.advanced(byMilliseconds: pause)
    }

    /// How often at most somebody tries who does not wait, when several ask at once and nobody gets it.
    package static let mostTries = 4

    /// The next try of somebody who does not wait. Two who failed on each other both took about as long as `took` nanoseconds: the
    /// pause is drawn from a span several times that, and twice as wide after each try, so that one of them is done before the
    /// other begins.
    /// - Parameters:
    ///   - tries: how many there were, 1 or more.
    ///   - random: in 0…1.
    package static func nextTry(after now: Instant, took: Int64, tries: Int, random: Double) -> Instant {
        let span = min(Double(max(took, 1_000_000)) * 4 * Double(1 << min(tries - 1, 8)), Double(pauses.upperBound) * 1e6)
        return now.advanced(byMilliseconds: Int64((span * random / 1e6).rounded(.up)))
    }

    /// How long the servers have to answer a question about a lease of `ttl` milliseconds: far below the ttl, so that a
    /// server that is away leaves something of the lease.
    package static func timeout(ttl: Int64, longest: Int64) -> Int64 {
        min(longest, max(10, ttl / 10))
    }
}
