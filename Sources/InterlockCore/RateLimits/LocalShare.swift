/// One limit while Redis is away: this sidecar's share of it, counted here by the limit's own algorithm.
///
/// The share is the limit divided by the sidecars that may be counting too. When that is less than one call a window, one
/// call is granted in as many windows as it takes, so that the fleet as a whole stays within the limit over time. Of a `gcra`
/// limit each sidecar has its part of the burst, one call at least, and refills it that many times slower.
package struct LocalShare: Sendable {
    /// What may be granted at once, 1 or more.
    package let capacity: Int64
    /// The period in milliseconds: the window, or several when the share is less than one.
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

    /// The share of the limit as it is now, among as many as there are now: what was taken of the one before counts on.
    func redefined(by new: LimitDefinition, sidecars: Int, now: Instant) -> LocalShare {
        guard new != definition || sidecars != self.sidecars else { return self }
        var next = LocalShare(of: new, sidecars: sidecars)
        var known = self
        let taken = known.taken(now: now)
        switch (known.state, next.state) {
        case (.fixed(let startedAt, let count), .fixed): next.state = .fixed(startedAt: startedAt, count: count)
        case (.sliding(let log), .sliding): next.state = .sliding(log.lasting(microseconds: next.period * 1000))
        default: if taken > 0 { next.take(taken, now: now) }
        }
        return next
    }

    /// What is taken at present.
    package mutating func taken(now: Instant) -> Int64 {
        roll(now: now)
        return switch state {
        case .fixed(_, let count): count
        case .sliding(let log): log.total
        case .cells(let bucket): bucket.taken(now: now.microseconds)
        }
    }

    /// Milliseconds until all of it can be taken again; of a fixed window that has not begun, its length.
    package mutating func resetAfter(now: Instant) -> Int64 {
        roll(now: now)
        switch state {
        case .fixed(let startedAt, _):
            guard let startedAt else { return period }
            return startedAt.advanced(byMilliseconds: period).millisecondsRoundedUp(since: now)
        case .sliding(let log):
            // An answer is read a microsecond later at the earliest.
            return (log.wait(untilFreed: log.total, now: now.microseconds) + 998) / 1000
        case .cells(let bucket):
            return (bucket.wait(until: 0, now: now.microseconds) + 999) / 1000
        }
    }

    /// In how many microseconds `cost` could be taken, if nothing else is taken; what costs more than the share is told to
    /// look again a period later.
    package mutating func retryAfterMicroseconds(cost: Int64, now: Instant) -> Int64 {
        guard cost <= capacity else { return period * 1000 }
        return switch state {
        case .fixed: resetAfter(now: now) * 1000
        case .sliding(let log): log.wait(untilFreed: log.total + cost - capacity, now: now.microseconds)
        case .cells(let bucket): bucket.wait(until: capacity - cost, now: now.microseconds)
        }
    }

    /// Counts what was granted.
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

    /// For how many milliseconds at most what is taken now goes on to count.
    func memoryMilliseconds(now: Instant) -> Int64 {
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
