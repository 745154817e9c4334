/// Remembered refusals. With them, the sidecar refuses further calls without asking Redis. It trusts a refusal for at
/// most one second, because the counter may be refunded, deleted or lost without notice. The number of refusals is
/// bounded. If a refusal does not fit, Redis decides on the next call.
struct RefusalMemory: Sendable {
    struct CounterID: Hashable, Sendable {
        /// The index of the limit's definition, or another number that identifies the limit.
        var definitionIndex: Int
        var subject: ExactText?

        init(definitionIndex: Int, subject: String?) {
            self.definitionIndex = definitionIndex
            self.subject = subject.map(ExactText.init)
        }
    }

    struct Refusal: Sendable {
        /// The cost that was refused.
        var cost: Int64
        /// Whether a higher cost waits equally long, as in fixed windows. With other algorithms each cost has its own
        /// wait.
        var appliesToHigherCosts: Bool
        /// The limit that callers were shown: the configured one, or this sidecar's quota.
        var limit: Int64
        /// The amount that was left.
        var remaining: Int64
        /// The time until which the refusal is certain.
        var until: Instant
        /// The earliest time at which a call of the same cost is certain to fit, if nothing else is taken.
        var retryAt: Instant
        /// The time at which the full capacity is available again.
        var resetAt: Instant
        /// The time at which the waiting calls try again; see `CapacitySplit`.
        var releaseAt: Instant
        /// The number of this sidecar's calls that wait for the counter. No other call overtakes them.
        var waiters = 0
        /// The total cost of the waiting calls.
        var costAhead: Int64 = 0
        /// The number of refusals since the counter last granted something here.
        var misses = 0
        /// Whether the counter granted something since its last refusal.
        var hasGranted = false

        /// Creates a refusal from the numbers of a verdict.
        /// - Parameters:
        ///   - limit: the limit that callers were shown.
        ///   - sentAt: a time before the batch was sent.
        init(
            cost: Int64, of definition: LimitDefinition, limit: Int64, remaining: Int64, retryAfterMicroseconds: Int64,
            resetAfterMilliseconds: Int64, sentAt: Instant, now: Instant
        ) {
            self.cost = cost
            self.limit = limit
            self.remaining = remaining
            appliesToHigherCosts = definition.algorithm == .fixed
            retryAt = now.advanced(byMicroseconds: retryAfterMicroseconds)
            releaseAt = retryAt
            resetAt = now.advanced(byMilliseconds: resetAfterMilliseconds)
            // Redis reports the end of a fixed window in whole milliseconds, and deletes the key one later.
            let certainUntil = sentAt.advanced(
                byMicroseconds: retryAfterMicroseconds - (appliesToHigherCosts ? 1000 : 0))
            until = min(certainUntil, now.advanced(byMilliseconds: RefusalMemory.maximumAgeMilliseconds))
        }

        /// Returns the earliest time at which `cost` can be granted behind waiting calls of cost `ahead`. Other
        /// sidecars may take from the limit first, so the grant may come later.
        func earliest(for cost: Int64, ahead: Int64, of definition: LimitDefinition) -> Instant {
            guard ahead > 0 else { return retryAt }
            if case .gcra = definition.algorithm {
                return retryAt.advanced(
                    byMicroseconds: definition.minimumMicroseconds(toGrant: ahead + cost - self.cost))
            }
            return retryAt.advanced(byMicroseconds: definition.minimumMicroseconds(toGrant: ahead + cost))
        }
    }

    /// The maximum time for which a refusal is trusted, in milliseconds.
    static let maximumAgeMilliseconds: Int64 = 1000
    /// The maximum number of refusals, except for those that a call awaits and those of service-wide limits, which are
    /// always added.
    static let capacity = 4096
    /// The age beyond which a lookup drops an expired refusal, in milliseconds.
    private static let retentionMilliseconds: Int64 = 1000
    /// The minimum interval between two sweeps for expired refusals, in milliseconds.
    private static let minimumSweepIntervalMilliseconds: Int64 = 100
    private static let distantPast = Instant(nanoseconds: .min)

    private var refusals: [CounterID: Refusal] = [:]
    /// The earliest time of the next sweep, so that not every new refusal causes one.
    private var nextSweepAt = RefusalMemory.distantPast

    var isEmpty: Bool { refusals.isEmpty }

    subscript(counter: CounterID) -> Refusal? { refusals[counter] }

    /// Returns the refusal that applies to `cost` at `now`, and the earliest time at which it may end; `nil` if no
    /// refusal applies.
    mutating func refusal(
        of counter: CounterID, definition: LimitDefinition, cost: Int64, now: Instant
    ) -> (refusal: Refusal, until: Instant)? {
        guard let refusal = refusals[counter] else { return nil }
        guard refusal.waiters == 0 else {
            let earliest = refusal.earliest(for: cost, ahead: refusal.costAhead, of: definition)
            return earliest > now ? (refusal, earliest) : nil
        }
        guard refusal.until > now else {
            // Calls that waited for the counter may be in a batch in flight, whose verdict still needs `misses`.
            if refusal.until.advanced(byMilliseconds: Self.retentionMilliseconds) <= now { refusals[counter] = nil }
            return nil
        }
        guard refusal.appliesToHigherCosts ? cost >= refusal.cost : cost == refusal.cost else { return nil }
        return (refusal, refusal.retryAt)
    }

    /// Adds or replaces a counter's refusal, unless there is no capacity for it.
    /// - Parameter isAwaited: whether a call is about to wait for the counter. Awaited refusals and those of
    ///   service-wide limits bypass the capacity, because the queue and the configuration limit their number.
    mutating func remember(_ refusal: Refusal, of counter: CounterID, isAwaited: Bool, now: Instant) {
        if refusals[counter] == nil, refusals.count >= Self.capacity {
            if nextSweepAt <= now {
                refusals = refusals.filter { $0.value.until > now || $0.value.waiters > 0 }
                nextSweepAt = now.advanced(byMilliseconds: Self.minimumSweepIntervalMilliseconds)
            }
            guard refusals.count < Self.capacity || isAwaited || counter.subject == nil else { return }
        }
        refusals[counter] = refusal
    }

    /// Adjusts the number of waiting calls by `change`, each of cost `cost`.
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

    /// Ends a counter's refusal, for example after a refund. Waiting calls may retry immediately.
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
