/// The validity of a lease: how long its holder may rely on it.
///
/// The holder counts on its own monotonic clock, from *before* the request was sent, and subtracts an allowance for
/// clock drift: 1 % of the lease and 2 ms. Source: the Redlock description, redis.io "Distributed Locks with Redis".
package enum LeaseValidity {
    /// The shortest lease that leaves any time after the allowance, in milliseconds.
    package static let absoluteMinimumTTL = LockSettings.absoluteMinimumTTL.wholeMilliseconds

    /// Returns the allowance for a lease of `ttl` milliseconds, in milliseconds.
    package static func drift(ofTTL ttl: Int64) -> Int64 {
        ttl / 100 + 2
    }

    /// Returns the end, for its holder, of a lease of `ttl` milliseconds that was requested at `sentAt`.
    package static func deadline(ttl: Int64, sentAt: Instant) -> Instant {
        sentAt.advanced(byMilliseconds: ttl - drift(ofTTL: ttl))
    }

    /// Returns the time of the request for a lease that ends for its holder at `deadline`.
    package static func sentAt(deadline: Instant, ttl: Int64) -> Instant {
        deadline.advanced(byMilliseconds: drift(ofTTL: ttl) - ttl)
    }

    /// Returns the whole milliseconds for which the lease can still be relied on at `now`; 0 or less if it is over.
    package static func remaining(ttl: Int64, sentAt: Instant, now: Instant) -> Int64 {
        (deadline(ttl: ttl, sentAt: sentAt).nanoseconds - now.nanoseconds) / 1_000_000
    }
}
