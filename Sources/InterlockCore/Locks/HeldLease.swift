/// Decides when to renew a held lease and when to consider it lost, by a monotonic clock.
package struct HeldLease: Sendable {
    /// The maximum delay before a failed renewal is retried; short leases use a tenth of their TTL.
    package static let maximumRetryMilliseconds: Int64 = 500
    /// The time within which due renewals are sent together.
    package static let batchMilliseconds: Int64 = 20

    /// The caller's next step.
    package enum Step: Equatable, Sendable {
        /// Renew the lease for `ttlMilliseconds`.
        case renew(ttlMilliseconds: Int64)
        /// Wait until this time.
        case wait(until: Instant)
        /// Treat the lease as lost, because its deadline has passed.
        case over
    }

    /// The lease's TTL in milliseconds.
    package let ttlMilliseconds: Int64
    /// The time until which the holder may rely on the lease.
    package private(set) var deadline: Instant
    /// Whether the lease is renewed automatically.
    package var isAutoRenewed: Bool
    /// The time beyond which the lease is never renewed, so that a hung client cannot hold the lock forever.
    package let maximumHoldEnd: Instant?
    private var nextRenewal: Instant
    private var isRenewalInFlight = false

    /// Begins to track a lease.
    /// - Parameters:
    ///   - ttlMilliseconds: the TTL in milliseconds.
    ///   - deadline: the time until which the holder may rely on the lease.
    ///   - maximumHoldMilliseconds: the maximum time to hold the lease; `nil` for no limit.
    package init(
        ttlMilliseconds: Int64, deadline: Instant, isAutoRenewed: Bool, maximumHoldMilliseconds: Int64?, now: Instant
    ) {
        self.ttlMilliseconds = ttlMilliseconds
        self.deadline = deadline
        self.isAutoRenewed = isAutoRenewed
        maximumHoldEnd = maximumHoldMilliseconds.map { now.advanced(byMilliseconds: $0) }
        nextRenewal = Self.renewalTime(
            inThirdOfMilliseconds: min(ttlMilliseconds, Self.milliseconds(from: now, to: deadline)), after: now)
    }

    /// Returns the next step at `now`.
    package func step(now: Instant) -> Step {
        if now >= deadline { return .over }
        guard isAutoRenewed, !isRenewalInFlight,
            let ttlMilliseconds = renewalTTLMilliseconds(at: max(now, nextRenewal))
        else { return .wait(until: deadline) }
        return now >= nextRenewal ? .renew(ttlMilliseconds: ttlMilliseconds) : .wait(until: min(nextRenewal, deadline))
    }

    /// Records that the caller sent a renewal.
    package mutating func renewalBegan() {
        isRenewalInFlight = true
    }

    /// Records that the renewal succeeded: the lease ends `ttlMilliseconds` after `sentAt`.
    package mutating func renewalSucceeded(ttlMilliseconds: Int64, sentAt: Instant) {
        isRenewalInFlight = false
        deadline = max(deadline, LeaseValidity.deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt))
        nextRenewal = Self.renewalTime(inThirdOfMilliseconds: self.ttlMilliseconds, after: sentAt)
    }

    /// Records that no reply to the renewal arrived. Another renewal follows, until the deadline has passed.
    package mutating func renewalFailed(now: Instant) {
        isRenewalInFlight = false
        nextRenewal = now.advanced(byMilliseconds: min(Self.maximumRetryMilliseconds, max(1, ttlMilliseconds / 10)))
    }

    /// Records that the holder itself renewed or shortened the lease.
    package mutating func updateDeadline(to deadline: Instant, now: Instant) {
        self.deadline = deadline
        nextRenewal = min(
            nextRenewal, Self.renewalTime(inThirdOfMilliseconds: Self.milliseconds(from: now, to: deadline), after: now)
        )
    }

    /// Returns the time a third of `milliseconds` after `instant`, at which a renewal is due.
    private static func renewalTime(inThirdOfMilliseconds milliseconds: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: max(0, milliseconds) / 3)
    }

    private static func milliseconds(from start: Instant, to end: Instant) -> Int64 {
        (end.nanoseconds - start.nanoseconds) / 1_000_000
    }

    /// Returns the TTL of a renewal at `instant`, in milliseconds; `nil` if the maximum hold leaves too little time.
    private func renewalTTLMilliseconds(at instant: Instant) -> Int64? {
        guard let maximumHoldEnd else { return ttlMilliseconds }
        let renewalMilliseconds = min(ttlMilliseconds, Self.milliseconds(from: instant, to: maximumHoldEnd))
        guard renewalMilliseconds >= LeaseValidity.absoluteMinimumTTLMilliseconds,
            LeaseValidity.deadline(ttlMilliseconds: renewalMilliseconds, sentAt: instant) > deadline
        else { return nil }
        return renewalMilliseconds
    }
}
