/// How long a lease may be relied on by its holder.
///
/// The holder counts on its own monotonic clock, from *before* the request was sent, and takes off what clocks may drift:
/// 1 % of the lease and 2 ms. Source: the Redlock description, redis.io "Distributed Locks with Redis".
package enum LeaseValidity {
    /// The shortest lease that leaves anything after the drift.
    package static let shortestTTL = LockSettings.shortestTTL.wholeMilliseconds

    /// What is taken off a lease of `ttl` milliseconds, in milliseconds.
    package static func drift(ofTTL ttl: Int64) -> Int64 {
        ttl / 100 + 2
    }

    /// When a lease of `ttl` milliseconds, asked for at `sentAt`, is over for its holder.
    package static func deadline(ttl: Int64, sentAt: Instant) -> Instant {
        sentAt.advanced(byMilliseconds: ttl - drift(ofTTL: ttl))
    }

    /// When a lease that is over for its holder at `deadline` was asked for.
    package static func sentAt(deadline: Instant, ttl: Int64) -> Instant {
        deadline.advanced(byMilliseconds: drift(ofTTL: ttl) - ttl)
    }

    /// Whole milliseconds for which the lease can still be relied on at `now`; 0 or less: it is over.
    package static func remaining(ttl: Int64, sentAt: Instant, now: Instant) -> Int64 {
        (deadline(ttl: ttl, sentAt: sentAt).nanoseconds - now.nanoseconds) / 1_000_000
    }
}
