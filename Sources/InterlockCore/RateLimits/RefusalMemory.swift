/// Refusals with a known end, by which calls can be refused without Redis. Each is trusted for at most one second,
/// because its counter may be refunded, deleted or lost without notice. The number is bounded: if a refusal does not
/// fit, calls at its counter go to Redis.
struct RefusalMemory: Sendable {
    struct CounterID: Hashable, Sendable {
        var definition: Int
        var subject: ExactText?

        init(definition: Int, subject: String?) {
            self.definition = definition
            self.subject = subject.map(ExactText.init)
        }
    }

    struct Refusal: Sendable {
        /// The cost that was refused.
        var cost: Int64
        /// Whether a higher cost waits equally long, as in fixed windows. With other algorithms each cost has its own
        /// wait.
        var appliesToHigherCosts: Bool
        /// The limit that callers were shown: that of the definition, or this sidecar's quota.
        var limit: Int64
        /// The amount that was left.
        var remaining: Int64
        /// The end of the period in which the refusal is known to hold.
        var until: Instant
        /// The earliest time that is known not to be too early for a call of the same cost.
        var retryAt: Instant
        /// The end of the refill, with the full capacity available again.
        var resetAt: Instant
        /// The time of the waiting calls' next try; see `CapacitySplit`.
        var releaseAt: Instant
        /// The number of this sidecar's calls that wait for this counter. No other call overtakes them.
        var waiters = 0
        /// The total cost of the waiting calls.
        var costAhead: Int64 = 0
        /// The number of refusals since the counter last granted something here.
        var misses = 0
        /// Whether the counter granted something since its last refusal.
        var hasGranted = false

        /// Creates a refusal from the numbers of a verdict.
        /// - Parameters:
        ///   - limit: the limit that callers are shown.
        ///   - sentAt: a time before the batch was sent.
        init(
            cost: Int64, of definition: LimitDefinition, limit: Int64, remaining: Int64, retryAfterMicroseconds: Int64,
            resetAfter: Int64, sentAt: Instant, now: Instant
        ) {
            self.cost = cost
            self.limit = limit
            self.remaining = remaining
            appliesToHigherCosts = definition.algorithm == .fixed
            retryAt = now.advanced(byMicroseconds: retryAfterMicroseconds)
            releaseAt = retryAt
            resetAt = now.advanced(byMilliseconds: resetAfter)
            // Redis reports the end of a fixed window in whole milliseconds, and deletes the key one later.
            let certain = sentAt.advanced(byMicroseconds: retryAfterMicroseconds - (appliesToHigherCosts ? 1000 : 0))
            until = min(certain, now.advanced(byMilliseconds: RefusalMemory.maximumAgeMilliseconds))
        }

        /// Returns a lower bound on when `cost` can be granted after everything that waits here. Other
        /// sidecars may take from the limit first.
        func earliest(for cost: Int64, ahead: Int64, of definition: LimitDefinition) -> Instant {
            guard ahead > 0 else { return retryAt }
            if case .gcra = definition.algorithm {
                return retryAt.advanced(byMicroseconds: definition.minimumTime(toGrant: ahead + cost - self.cost))
            }
            return retryAt.advanced(byMicroseconds: definition.minimumTime(toGrant: ahead + cost))
        }
    }

    /// The maximum time for which a refusal is trusted, in milliseconds.
    static let maximumAgeMilliseconds: Int64 = 1000
    /// The number of refusals beyond which only awaited ones and those of service-wide limits are added.
    static let capacity = 4096
    /// The age beyond which a lookup drops an expired refusal, in milliseconds.
    private static let retentionMilliseconds: Int64 = 1000
    /// The minimum interval between two sweeps for expired refusals, in milliseconds.
    private static let minimumSweepInterval: Int64 = 100
    private static let distantPast = Instant(nanoseconds: .min)

    private var refusals: [CounterID: Refusal] = [:]
    /// The earliest time of the next sweep. Without it, each of many new refusals would trigger one.
    private var nextSweepAt = RefusalMemory.distantPast

    var isEmpty: Bool { refusals.isEmpty }

    subscript(counter: CounterID) -> Refusal? { refusals[counter] }

    /// Returns the refusal that applies to `cost` at `now`, if any, and a lower bound on its end.
    mutating func refusal(
        of counter: CounterID, definition: LimitDefinition, cost: Int64, now: Instant
    ) -> (refusal: Refusal, until: Instant)? {
        guard let refusal = refusals[counter] else { return nil }
        guard refusal.waiters == 0 else {
            let earliest = refusal.earliest(for: cost, ahead: refusal.costAhead, of: definition)
            return earliest > now ? (refusal, earliest) : nil
        }
        guard refusal.until > now else {
            // Former waiters may be in a batch in flight, which still needs `misses`.
            if refusal.until.advanced(byMilliseconds: Self.retentionMilliseconds) <= now { refusals[counter] = nil }
            return nil
        }
        guard refusal.appliesToHigherCosts ? cost >= refusal.cost : cost == refusal.cost else { return nil }
        return (refusal, refusal.retryAt)
    }

    /// - Parameter isAwaited: whether a call is about to wait for the counter. The queue bounds the awaited refusals,
    ///   and the configuration those of service-wide limits, so both bypass the capacity.
    mutating func remember(_ refusal: Refusal, of counter: CounterID, isAwaited: Bool, now: Instant) {
        if refusals[counter] == nil, refusals.count >= Self.capacity {
            if nextSweepAt <= now {
                refusals = refusals.filter { $0.value.until > now || $0.value.waiters > 0 }
                nextSweepAt = now.advanced(byMilliseconds: Self.minimumSweepInterval)
            }
            guard refusals.count < Self.capacity || isAwaited || counter.subject == nil else { return }
        }
        refusals[counter] = refusal
    }

    mutating func changeWaiters(of counter: CounterID, by change: Int, cost: Int64) {
        guard var refusal = refusals[counter] else { return }
        refusal.waiters += change
        refusal.costAhead += Int64(change) * cost
        refusals[counter] = refusal
    }

    /// Records that the counter granted something.
    mutating func recordGrant(by counter: CounterID) {
        refusals[counter]?.hasGranted = true
    }

    /// Delays the waiting calls until `instant`.
    mutating func pause(_ counter: CounterID, until instant: Instant) {
        refusals[counter]?.releaseAt = instant
    }

    /// Lets the waiting calls retry immediately.
    mutating func release(_ counter: CounterID) {
        refusals[counter]?.releaseAt = Self.distantPast
    }

    /// Ends a refusal, for example after a refund. Waiting calls may retry immediately.
    mutating func forget(_ counter: CounterID) {
        guard var refusal = refusals[counter] else { return }
        guard refusal.waiters > 0 else { return refusals[counter] = nil }
        let past = Self.distantPast
        (refusal.until, refusal.retryAt, refusal.resetAt, refusal.releaseAt) = (past, past, past, past)
        refusals[counter] = refusal
    }

    /// Ends all refusals.
    mutating func forgetAll() {
        for counter in refusals.keys { forget(counter) }
    }
}
