/// Decides when to renew a held lease and when to consider it lost. Times are on a monotonic clock.
package struct HeldLease: Sendable {
    /// The maximum delay before a failed renewal is retried; short leases use a tenth of their TTL.
    package static let maximumRetryMilliseconds: Int64 = 500
    /// The time within which due renewals are sent together.
    package static let batchMilliseconds: Int64 = 20

    package enum Step: Equatable, Sendable {
        /// Renew the lease to `ttl` milliseconds.
        case extend(ttl: Int64)
        /// Wait until this time.
        case wait(until: Instant)
        case over
    }

    /// The length in milliseconds.
    package let ttl: Int64
    /// The end of the lease for its holder.
    package private(set) var deadline: Instant
    /// Whether the lease is renewed automatically.
    package var isAutoExtended: Bool
    /// The time beyond which the lease is never renewed, so that a hung client cannot hold the lock forever.
    package let ceiling: Instant?
    private var nextExtension: Instant
    private var isInFlight = false

    /// - Parameter ceilingMilliseconds: the maximum time to hold the lease; `nil` for no limit.
    package init(ttl: Int64, deadline: Instant, isAutoExtended: Bool, ceilingMilliseconds: Int64?, now: Instant) {
        self.ttl = ttl
        self.deadline = deadline
        self.isAutoExtended = isAutoExtended
        ceiling = ceilingMilliseconds.map { now.advanced(byMilliseconds: $0) }
        nextExtension = Self.third(of: min(ttl, Self.milliseconds(from: now, to: deadline)), after: now)
    }

    /// Returns the next step at `now`.
    package func step(now: Instant) -> Step {
        if now >= deadline { return .over }
        guard isAutoExtended, !isInFlight, let length = extensionLength(at: max(now, nextExtension)) else {
            return .wait(until: deadline)
        }
        return now >= nextExtension ? .extend(ttl: length) : .wait(until: min(nextExtension, deadline))
    }

    /// Records that a renewal was sent.
    package mutating func extensionBegan() {
        isInFlight = true
    }

    /// Records that the renewal succeeded: the lease is `ttl` milliseconds long, counted from `sentAt`.
    package mutating func extended(ttl: Int64, sentAt: Instant) {
        isInFlight = false
        deadline = max(deadline, LeaseValidity.deadline(ttl: ttl, sentAt: sentAt))
        nextExtension = Self.third(of: self.ttl, after: sentAt)
    }

    /// Records that the renewal went unanswered. It is retried until the deadline.
    package mutating func extensionFailed(now: Instant) {
        isInFlight = false
        nextExtension = now.advanced(byMilliseconds: min(Self.maximumRetryMilliseconds, max(1, ttl / 10)))
    }

    /// Records that the holder itself renewed or shortened the lease.
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

    /// Returns the length of a renewal at `instant`; `nil` if the ceiling leaves too little for one.
    private func extensionLength(at instant: Instant) -> Int64? {
        guard let ceiling else { return ttl }
        let length = min(ttl, (ceiling.nanoseconds - instant.nanoseconds) / 1_000_000)
        guard length >= LeaseValidity.absoluteMinimumTTL, LeaseValidity.deadline(ttl: length, sentAt: instant) > deadline else {
            return nil
        }
        return length
    }
}
