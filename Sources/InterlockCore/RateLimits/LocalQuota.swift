/// One limit while Redis is unreachable: this sidecar's quota, counted here by the limit's own algorithm.
///
/// The quota is the limit divided by the number of sidecars that may be counting too. If that is less than one call per
/// window, one call is granted per as many windows as needed, so that the fleet stays within the limit over time. For
/// `gcra`, each sidecar has its part of the burst, at least one call, and its refill time is multiplied by the number
/// of sidecars.
package struct LocalQuota: Sendable {
    /// The maximum cost that can be granted at once, 1 or more.
    package let capacity: Int64
    /// The period in milliseconds: the window, or longer if the quota is less than one call per window.
    package let period: Int64
    private let definition: LimitDefinition
    private let sidecars: Int
    private var state: State

    private enum State: Sendable {
        case fixed(startedAt: Instant?, count: Int64)
        case sliding(SlidingLog)
        case cells(CellBucket)
    }

    package init(of definition: LimitDefinition, sidecars: Int) {
        self.definition = definition
        self.sidecars = sidecars
        let sidecars = Int64(max(1, sidecars))
        let window = definition.windowMilliseconds
        let limit = definition.limit
        switch definition.algorithm {
        case .fixed, .sliding:
            capacity = max(1, limit / sidecars)
            period = limit >= sidecars ? window : (window * sidecars + limit - 1) / limit
            state =
                definition.algorithm == .fixed
                ? .fixed(startedAt: nil, count: 0) : .sliding(SlidingLog(windowMicroseconds: period * 1000))
        case .gcra:
            capacity = max(1, definition.capacity / sidecars)
            period = window
            state = .cells(
                CellBucket(rate: CellRate(limit: limit, windowMicroseconds: window * 1000 * sidecars, capacity: capacity)))
        }
    }

    /// Returns the quota of a changed limit or fleet. Earlier usage still counts.
    func redefined(by new: LimitDefinition, sidecars: Int, now: Instant) -> LocalQuota {
        var known = definition
        known.isShadow = new.isShadow
        guard new != known || sidecars != self.sidecars else { return self }
        var next = LocalQuota(of: new, sidecars: sidecars)
        var former = self
        let taken = former.taken(now: now)
        switch (former.state, next.state) {
        case (.fixed(let startedAt, let count), .fixed): next.state = .fixed(startedAt: startedAt, count: count)
        case (.sliding(let log), .sliding): next.state = .sliding(log.withWindow(microseconds: next.period * 1000))
        default: if taken > 0 { next.take(taken, now: now) }
        }
        return next
    }

    /// Returns the current usage.
    package mutating func taken(now: Instant) -> Int64 {
        roll(now: now)
        return switch state {
        case .fixed(_, let count): count
        case .sliding(let log): log.total
        case .cells(let bucket): bucket.taken(now: now.microseconds)
        }
    }

    /// Returns the milliseconds until the full quota is available again; for a fixed window that has not begun, its
    /// length.
    package mutating func resetAfter(now: Instant) -> Int64 {
        roll(now: now)
        switch state {
        case .fixed(let startedAt, _):
            guard let startedAt else { return period }
            return startedAt.advanced(byMilliseconds: period).millisecondsRoundedUp(since: now)
        case .sliding(let log):
            // Callers read an answer at least one microsecond later.
            return (log.wait(untilFreed: log.total, now: now.microseconds) + 998) / 1000
        case .cells(let bucket):
            return (bucket.wait(until: 0, now: now.microseconds) + 999) / 1000
        }
    }

    /// Returns the microseconds until `cost` fits if nothing else is taken; for a cost above the quota, one period.
    package mutating func retryAfterMicroseconds(cost: Int64, now: Instant) -> Int64 {
        guard cost <= capacity else { return period * 1000 }
        return switch state {
        case .fixed: resetAfter(now: now) * 1000
        case .sliding(let log): log.wait(untilFreed: log.total + cost - capacity, now: now.microseconds)
        case .cells(let bucket): bucket.wait(until: capacity - cost, now: now.microseconds)
        }
    }

    /// Counts a grant.
    package mutating func take(_ cost: Int64, now: Instant) {
        roll(now: now)
        switch state {
        case .fixed(let startedAt, let count):
            state = .fixed(startedAt: startedAt ?? now, count: count + cost)
        case .sliding(var log):
            log.take(cost, now: now.microseconds)
            state = .sliding(log)
        case .cells(var bucket):
            bucket.take(cost, now: now.microseconds)
            state = .cells(bucket)
        }
    }

    /// Returns the maximum time for which current usage still counts, in milliseconds.
    func retentionMilliseconds(now: Instant) -> Int64 {
        switch state {
        case .fixed, .sliding: period
        case .cells(let bucket): bucket.wait(until: 0, now: now.microseconds) / 1000 + 1
        }
    }

    private mutating func roll(now: Instant) {
        switch state {
        case .fixed(let startedAt, _):
            guard let startedAt, startedAt.advanced(byMilliseconds: period) <= now else { return }
            state = .fixed(startedAt: nil, count: 0)
        case .sliding(var log):
            log.trim(now: now.microseconds)
            state = .sliding(log)
        case .cells:
            break
        }
    }
}

extension Instant {
    /// Whole microseconds since the clock's start.
    fileprivate var microseconds: Int64 { nanoseconds / 1000 }
}
