/// A lease that somebody relies on: when to extend it, when to give it up for lost. Times are of a monotonic clock.
package struct HeldLease: Sendable {
    /// After a failed extension the next one follows this soon, or sooner for short leases.
    package static let longestRetryMilliseconds: Int64 = 500
    /// Extensions that are due within so many milliseconds of each other leave together.
    package static let batchMilliseconds: Int64 = 20

    package enum Step: Equatable, Sendable {
        /// Extend the lease to so many milliseconds.
        case extend(ttl: Int64)
        /// Nothing to do before then.
        case wait(until: Instant)
        /// It is over.
        case over
    }

    /// Its length in milliseconds.
    package let ttl: Int64
    /// When it is over for its holder.
    package private(set) var deadline: Instant
    /// It is extended until somebody no longer wants that.
    package var isExtended: Bool
    /// No extension reaches beyond this: a client that hangs does not hold for ever.
    package let ceiling: Instant?
    private var nextExtension: Instant
    private var isUnderWay = false

    /// - Parameter ceilingMilliseconds: how long it may be held at most; `nil`: for ever.
    package init(ttl: Int64, deadline: Instant, isExtended: Bool, ceilingMilliseconds: Int64?, now: Instant) {
        self.ttl = ttl
        self.deadline = deadline
        self.isExtended = isExtended
        ceiling = ceilingMilliseconds.map { now.advanced(byMilliseconds: $0) }
        nextExtension = Self.third(of: min(ttl, Self.milliseconds(from: now, to: deadline)), after: now)
    }

    /// What is to be done at `now`.
    package func step(now: Instant) -> Step {
        if now >= deadline { return .over }
        guard isExtended, !isUnderWay, let length = extensionLength(at: max(now, nextExtension)) else {
            return .wait(until: deadline)
        }
        return now >= nextExtension ? .extend(ttl: length) : .wait(until: min(nextExtension, deadline))
    }

    /// An extension is sent.
    package mutating func extensionBegan() {
        isUnderWay = true
    }

    /// It was carried out: the lease is `ttl` milliseconds long from `sentAt` on.
    package mutating func extended(ttl: Int64, sentAt: Instant) {
        isUnderWay = false
        deadline = max(deadline, LeaseValidity.deadline(ttl: ttl, sentAt: sentAt))
        nextExtension = Self.third(of: self.ttl, after: sentAt)
    }

    /// It has no answer: it is tried again until the deadline.
    package mutating func extensionFailed(now: Instant) {
        isUnderWay = false
        nextExtension = now.advanced(byMilliseconds: min(Self.longestRetryMilliseconds, max(1, ttl / 10)))
    }

    /// Its holder extended it by itself, or made it shorter.
    package mutating func moved(to deadline: Instant, now: Instant) {
        self.deadline = deadline
        nextExtension = min(nextExtension, Self.third(of: Self.milliseconds(from: now, to: deadline), after: now))
    }

    private static func third(of milliseconds: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: max(0, milliseconds) / 3)
    }

    private static func milliseconds(from now: Instant, to deadline: Instant) -> Int64 {
        (deadline.nanoseconds - now.nanoseconds) / 1_000_000
    }

    /// `nil`: the ceiling leaves nothing that is worth an extension.
    private func extensionLength(at instant: Instant) -> Int64? {
        guard let ceiling else { return ttl }
        let length = min(ttl, (ceiling.nanoseconds - instant.nanoseconds) / 1_000_000)
        guard length >= LeaseValidity.shortestTTL, LeaseValidity.deadline(ttl: length, sentAt: instant) > deadline else {
            return nil
        }
        return length
    }
}
