/// This sidecar's quota of one limit while Redis is unreachable, counted by the limit's own algorithm.
///
/// The quota is the limit divided by the number of sidecars that may be counting. If that is less than one call per
/// window, the sidecar grants one call in several windows, so that the fleet stays within the limit over time. For
/// `gcra`, each sidecar has its part of the burst, at least one call, and its refill time is multiplied by the number
/// of sidecars.
package struct LocalQuota: Sendable {
    /// The maximum cost that can be granted at once, 1 or more.
    package let capacity: Int64
    /// The time in which the quota may be granted, in milliseconds: the window, or longer if the quota is less than one
    /// call per window.
    package let periodMilliseconds: Int64
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
        let sidecarCount = Int64(max(1, sidecars))
        let windowMilliseconds = definition.windowMilliseconds
        let limit = definition.limit
        switch definition.algorithm {
        case .fixed, .sliding:
            capacity = max(1, limit / sidecarCount)
            periodMilliseconds =
                limit >= sidecarCount ? windowMilliseconds : (windowMilliseconds * sidecarCount + limit - 1) / limit
            state =
                definition.algorithm == .fixed
                ? .fixed(startedAt: nil, count: 0) : .sliding(SlidingLog(windowMicroseconds: periodMilliseconds * 1000))
        case .gcra:
            capacity = max(1, definition.capacity / sidecarCount)
            periodMilliseconds = windowMilliseconds
            let windowMicroseconds = windowMilliseconds * 1000 * sidecarCount
            state = .cells(
                CellBucket(rate: CellRate(limit: limit, windowMicroseconds: windowMicroseconds, capacity: capacity)))
        }
    }

    /// Returns the quota after a change of the limit or the fleet. Earlier usage still counts.
    func redefined(by newDefinition: LimitDefinition, sidecars: Int, now: Instant) -> LocalQuota {
        var unchanged = definition
        unchanged.isShadow = newDefinition.isShadow
        guard newDefinition != unchanged || sidecars != self.sidecars else { return self }
        var next = LocalQuota(of: newDefinition, sidecars: sidecars)
        var former = self
        let taken = former.taken(now: now)
        switch (former.state, next.state) {
        case (.fixed(let startedAt, let count), .fixed): next.state = .fixed(startedAt: startedAt, count: count)
        case (.sliding(let log), .sliding): next.state = .sliding(log.withWindow(microseconds: next.periodMilliseconds * 1000))
        default: if taken > 0 { next.take(taken, now: now) }
        }
        return next
    }

    /// Returns the current usage.
    package mutating func taken(now: Instant) -> Int64 {
        dropLapsed(now: now)
        return switch state {
        case .fixed(_, let count): count
        case .sliding(let log): log.total
        case .cells(let bucket): bucket.taken(nowMicroseconds: now.microseconds)
        }
    }

    /// Returns the milliseconds until the full quota is available again; for a fixed window that has not begun, its
    /// length.
    package mutating func resetAfterMilliseconds(now: Instant) -> Int64 {
        dropLapsed(now: now)
        switch state {
        case .fixed(let startedAt, _):
            guard let startedAt else { return periodMilliseconds }
            return startedAt.advanced(byMilliseconds: periodMilliseconds).millisecondsRoundedUp(since: now)
        case .sliding(let log):
            // Callers read the decision at least one microsecond later.
            return (log.waitMicroseconds(untilFreed: log.total, nowMicroseconds: now.microseconds) + 998) / 1000
        case .cells(let bucket):
            return (bucket.waitMicroseconds(until: 0, nowMicroseconds: now.microseconds) + 999) / 1000
        }
    }

    /// Returns the microseconds until `cost` fits if nothing else is taken. A cost above the quota never fits; its
    /// retry time is the time in which the quota may be granted.
    package mutating func retryAfterMicroseconds(cost: Int64, now: Instant) -> Int64 {
        guard cost <= capacity else { return periodMilliseconds * 1000 }
        return switch state {
        case .fixed: resetAfterMilliseconds(now: now) * 1000
        case .sliding(let log):
            log.waitMicroseconds(untilFreed: log.total + cost - capacity, nowMicroseconds: now.microseconds)
        case .cells(let bucket): bucket.waitMicroseconds(until: capacity - cost, nowMicroseconds: now.microseconds)
        }
    }

    /// Counts a grant.
    package mutating func take(_ cost: Int64, now: Instant) {
        dropLapsed(now: now)
        switch state {
        case .fixed(let startedAt, let count):
            state = .fixed(startedAt: startedAt ?? now, count: count + cost)
        case .sliding(var log):
            log.take(cost, nowMicroseconds: now.microseconds)
            state = .sliding(log)
        case .cells(var bucket):
            bucket.take(cost, nowMicroseconds: now.microseconds)
            state = .cells(bucket)
        }
    }

    /// Returns the maximum time for which current usage still counts, in milliseconds.
    func retentionMilliseconds(now: Instant) -> Int64 {
        switch state {
        case .fixed, .sliding: periodMilliseconds
        case .cells(let bucket): bucket.waitMicroseconds(until: 0, nowMicroseconds: now.microseconds) / 1000 + 1
        }
    }

    /// Drops the usage that has lapsed.
    private mutating func dropLapsed(now: Instant) {
        switch state {
        case .fixed(let startedAt, _):
            guard let startedAt, startedAt.advanced(byMilliseconds: periodMilliseconds) <= now else { return }
            state = .fixed(startedAt: nil, count: 0)
        case .sliding(var log):
            log.trim(nowMicroseconds: now.microseconds)
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
