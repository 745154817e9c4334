/// Refusals whose end is known, so that they need no Redis until then, for a second at most: a counter may be given something
/// back, deleted or lost meanwhile, and nobody tells. Bounded: what does not fit is simply asked again.
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
        /// This cost was refused.
        var cost: Int64
        /// A higher one has to wait as long: so it is with fixed windows. With other algorithms each cost has a time of its own.
        var holdsForMore: Bool
        /// What callers were told of as the limit: that of the definition, or this sidecar's share of it.
        var limit: Int64
        /// What was left.
        var remaining: Int64
        /// Until when it holds for certain.
        var until: Instant
        /// When a caller who comes with the same cost cannot be too early.
        var retryAt: Instant
        /// When all of the limit can be taken again.
        var wholeAt: Instant
        /// When those who wait here may ask; see `TurnSharing`.
        var releaseAt: Instant
        /// How many of this sidecar's calls wait for this counter: nobody overtakes them.
        var waiters = 0
        /// What these cost together.
        var costAhead: Int64 = 0
        /// How often it was refused since it last granted something here.
        var rounds = 0
        /// It granted something since it was last refused.
        var hasGranted = false

        /// A refusal as a verdict reports it.
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
            holdsForMore = definition.algorithm == .fixed
            retryAt = now.advanced(byMicroseconds: retryAfterMicroseconds)
            releaseAt = retryAt
            wholeAt = now.advanced(byMilliseconds: resetAfter)
            // Redis reports the end of a fixed window in whole milliseconds, and the key is gone one later.
            let certain = sentAt.advanced(byMicroseconds: retryAfterMicroseconds - (holdsForMore ? 1000 : 0))
            until = min(certain, now.advanced(byMilliseconds: RefusalMemory.relianceMilliseconds))
        }

        /// The earliest moment in which `cost` could be granted after all that waits here: a lower bound, as other sidecars
        /// take too.
        func earliest(for cost: Int64, ahead: Int64, of definition: LimitDefinition) -> Instant {
            guard ahead > 0 else { return retryAt }
            if case .gcra = definition.algorithm {
                return retryAt.advanced(byMicroseconds: definition.leastTime(toGrant: ahead + cost - self.cost))
            }
            return retryAt.advanced(byMicroseconds: definition.leastTime(toGrant: ahead + cost))
        }
    }

    /// For how long a refusal is relied on at most, in milliseconds.
    static let relianceMilliseconds: Int64 = 1000
    /// The most subjects' counters that are remembered without anybody waiting for them.
    static let capacity = 4096
    /// For how many milliseconds one that holds no more is kept at least.
    private static let afterlife: Int64 = 1000
    /// The least time between two looks for those that hold no more, in milliseconds.
    private static let leastSweepPause: Int64 = 100
    private static let past = Instant(nanoseconds: .min)

    private var refusals: [CounterID: Refusal] = [:]
    /// When it may next be looked for those that hold no more: not for each new one of very many.
    private var nextSweepAt = RefusalMemory.past

    var isEmpty: Bool { refusals.isEmpty }

    subscript(counter: CounterID) -> Refusal? { refusals[counter] }

    /// What holds for `cost` at `now`, and until when at least, if a refusal does.
    mutating func refusal(
        of counter: CounterID, definition: LimitDefinition, cost: Int64, now: Instant
    ) -> (refusal: Refusal, until: Instant)? {
        guard let refusal = refusals[counter] else { return nil }
        guard refusal.waiters == 0 else {
            let earliest = refusal.earliest(for: cost, ahead: refusal.costAhead, of: definition)
            return earliest > now ? (refusal, earliest) : nil
        }
        guard refusal.until > now else {
            // Those who waited may be on their way: how often they went without is still of use.
            if refusal.until.advanced(byMilliseconds: Self.afterlife) <= now { refusals[counter] = nil }
            return nil
        }
        guard refusal.holdsForMore ? cost >= refusal.cost : cost == refusal.cost else { return nil }
        return (refusal, refusal.retryAt)
    }

    /// - Parameter isAwaited: somebody is about to wait for it. Those who wait are bounded by themselves, and so are the limits
    ///   that are the whole service's: subjects take no place of theirs.
    mutating func remember(_ refusal: Refusal, of counter: CounterID, isAwaited: Bool, now: Instant) {
        if refusals[counter] == nil, refusals.count >= Self.capacity {
            if nextSweepAt <= now {
                refusals = refusals.filter { $0.value.until > now || $0.value.waiters > 0 }
                nextSweepAt = now.advanced(byMilliseconds: Self.leastSweepPause)
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

    /// Something was taken from the counter.
    mutating func granted(by counter: CounterID) {
        refusals[counter]?.hasGranted = true
    }

    /// Those who wait here do not ask before `instant`.
    mutating func pause(_ counter: CounterID, until instant: Instant) {
        refusals[counter]?.releaseAt = instant
    }

    /// Those who wait here may ask at once.
    mutating func release(_ counter: CounterID) {
        refusals[counter]?.releaseAt = Self.past
    }

    /// A give-back made room: the refusal no longer holds.
    mutating func forget(_ counter: CounterID) {
        guard var refusal = refusals[counter] else { return }
        guard refusal.waiters > 0 else { return refusals[counter] = nil }
        (refusal.until, refusal.retryAt, refusal.wholeAt, refusal.releaseAt) = (Self.past, Self.past, Self.past, Self.past)
        refusals[counter] = refusal
    }

    /// Nothing that was known need be so any more.
    mutating func forgetAll() {
        for counter in refusals.keys { forget(counter) }
    }
}
