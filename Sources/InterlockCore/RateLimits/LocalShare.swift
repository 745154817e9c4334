/// One limit while Redis is away: this sidecar's share of it, counted here.
///
/// The share is the limit divided by the sidecars that may be counting too. When that is less than one call a window, one
/// call is granted in as many windows as it takes, so that the fleet as a whole stays within the limit.
public struct LocalShare: Sendable {
    /// What may be granted in one period, 1 or more.
    public let limit: Int64
    /// The period in milliseconds: the window, or several when the share is less than one.
    public let period: Int64
    private var startedAt: Instant?
    private var count: Int64 = 0

    public init(limit: Int64, windowMilliseconds: Int64, sidecars: Int) {
        let sidecars = Int64(max(1, sidecars))
        self.limit = max(1, limit / sidecars)
        period = limit >= sidecars ? windowMilliseconds : (windowMilliseconds * sidecars + limit - 1) / limit
    }

    /// What is left in the current period.
    public mutating func remaining(now: Instant) -> Int64 {
        roll(now: now)
        return limit - count
    }

    /// Milliseconds until the current period ends; the whole period when none has begun.
    public mutating func resetAfter(now: Instant) -> Int64 {
        roll(now: now)
        guard let startedAt else { return period }
        return startedAt.advanced(byMilliseconds: period).millisecondsRoundedUp(since: now)
    }

    /// Counts a call that was granted.
    public mutating func take(_ cost: Int64, now: Instant) {
        roll(now: now)
        if startedAt == nil { startedAt = now }
        count += cost
    }

    private mutating func roll(now: Instant) {
        guard let start = startedAt, start.advanced(byMilliseconds: period) <= now else { return }
        startedAt = nil
        count = 0
    }
}
