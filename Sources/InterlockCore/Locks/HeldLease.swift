/// Decides when to renew a held lease and when to consider it lost. Times are on a monotonic clock.
package struct HeldLease: Sendable {
    /// The maximum delay before a failed renewal is retried; short leases use a tenth of their TTL.
    package static let maximumRetryMilliseconds: Int64 = 500
    /// The time within which due renewals are sent together.
    package static let batchMilliseconds: Int64 = 20

    package enum Step: Equatable, Sendable {
        /// Renew the lease to `ttl` milliseconds.
        case renew(ttl: Int64)
        /// Wait until this time.
        case wait(until: Instant)
        case over
    }

    /// The length in milliseconds.
    package let ttl: Int64
    /// The end of the lease for its holder.
    package private(set) var deadline: Instant
    /// Whether the lease is renewed automatically.
    package var isAutoRenewed: Bool
    /// The time beyond which the lease is never renewed, so that a hung client cannot hold the lock forever.
    package let maximumHoldEnd: Instant?
    private var nextRenewal: Instant
    private var isInFlight = false

    /// - Parameter maximumHoldMilliseconds: the maximum time to hold the lease; `nil` for no limit.
    package init(ttl: Int64, deadline: Instant, isAutoRenewed: Bool, maximumHoldMilliseconds: Int64?, now: Instant) {
        self.ttl = ttl
        self.deadline = deadline
        self.isAutoRenewed = isAutoRenewed
        maximumHoldEnd = maximumHoldMilliseconds.map { now.advanced(byMilliseconds: $0) }
        nextRenewal = Self.third(of: min(ttl, Self.milliseconds(from: now, to: deadline)), after: now)
    }

    /// Returns the next step at `now`.
    package func step(now: Instant) -> Step {
        if now >= deadline { return .over }
        guard isAutoRenewed, !isInFlight, let length = renewalLength(at: max(now, nextRenewal)) else {
            return .wait(until: deadline)
        }
        return now >= nextRenewal ? .renew(ttl: length) : .wait(until: min(nextRenewal, deadline))
    }

    /// Records that a renewal was sent.
    package mutating func renewalBegan() {
        isInFlight = true
    }

    /// Records that the renewal succeeded: the lease is `ttl` milliseconds long, counted from `sentAt`.
    package mutating func renewalSucceeded(ttl: Int64, sentAt: Instant) {
        isInFlight = false
        deadline = max(deadline, LeaseValidity.deadline(ttl: ttl, sentAt: sentAt))
        nextRenewal = Self.third(of: self.ttl, after: sentAt)
    }

    /// Records that the renewal went unanswered. It is retried until the deadline.
    package mutating func renewalFailed(now: Instant) {
        isInFlight = false
        nextRenewal = now.advanced(byMilliseconds: min(Self.maximumRetryMilliseconds, max(1, ttl / 10)))
    }

    /// Records that the holder itself renewed or shortened the lease.
    package mutating func updateDeadline(to deadline: Instant, now: Instant) {
        self.deadline = deadline
        nextRenewal = min(nextRenewal, Self.third(of: Self.milliseconds(from: now, to: deadline), after: now))
    }

    private static func third(of milliseconds: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: max(0, milliseconds) / 3)
    }

    private static func milliseconds(from now: Instant, to deadline: Instant) -> Int64 {
        (deadline.nanoseconds - now.nanoseconds) / 1_000_000
    }

    /// Returns the length of a renewal at `instant`; `nil` if the maximum hold leaves too little for one.
    private func renewalLength(at instant: Instant) -> Int64? {
        guard let maximumHoldEnd else { return ttl }
        let length = min(ttl, (maximumHoldEnd.nanoseconds - instant.nanoseconds) / 1_000_000)
        guard length >= LeaseValidity.absoluteMinimumTTL, LeaseValidity.deadline(ttl: length, sentAt: instant) > deadline else {
            return nil
        }
        return length
    }
}
