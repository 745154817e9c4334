/// The validity of a lease: how long its holder may rely on it.
///
/// The holder counts on its own monotonic clock, from *before* the request was sent, and subtracts an allowance for
/// drifting clocks: 1 % of the lease and 2 ms. Source: the Redlock description, redis.io "Distributed Locks with
/// Redis".
package enum LeaseValidity {
    /// The shortest TTL, in milliseconds. The allowance for drifting clocks would use up most of a shorter one.
    package static let absoluteMinimumTTLMilliseconds = LockSettings.absoluteMinimumTTL.wholeMilliseconds

    /// Returns the allowance for a lease of this TTL. Both are in milliseconds.
    package static func driftMilliseconds(ofTTL ttlMilliseconds: Int64) -> Int64 {
        ttlMilliseconds / 100 + 2
    }

    /// Returns the time until which the holder may rely on a lease of this TTL that was requested at `sentAt`.
    /// - Parameter ttlMilliseconds: the TTL in milliseconds.
    package static func deadline(ttlMilliseconds: Int64, sentAt: Instant) -> Instant {
        sentAt.advanced(byMilliseconds: ttlMilliseconds - driftMilliseconds(ofTTL: ttlMilliseconds))
    }

    /// Returns the time at which a lease with this deadline was requested: the inverse of `deadline`.
    /// - Parameter ttlMilliseconds: the TTL in milliseconds.
    package static func sentAt(deadline: Instant, ttlMilliseconds: Int64) -> Instant {
        deadline.advanced(byMilliseconds: driftMilliseconds(ofTTL: ttlMilliseconds) - ttlMilliseconds)
    }

    /// Returns the whole milliseconds for which the holder can still rely on the lease at `now`; 0 or less once it has
    /// ended.
    /// - Parameter ttlMilliseconds: the TTL in milliseconds.
    package static func remainingMilliseconds(ttlMilliseconds: Int64, sentAt: Instant, now: Instant) -> Int64 {
        (deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt).nanoseconds - now.nanoseconds) / 1_000_000
    }
}
