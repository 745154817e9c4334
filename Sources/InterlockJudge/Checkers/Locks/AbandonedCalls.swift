internal import InterlockCore

/// Calls without an OWNER whose clients disconnected while they waited for one lock. Their sidecar releases the lease
/// if one is granted, unless a fault intervenes. If the lock may just have become free, the answer may already have
/// been sent, and the sidecar cannot know that it was not read. Memory grows with the clients that leave within
/// `disconnectGrace`.
struct AbandonedCalls: Sendable {
    /// The time within which a sidecar releases a lease that was granted to a client that left, in milliseconds.
    static let releaseTime: Int64 = 500
    /// The minimum remaining time of another client's lease for the lock to be known to be held, in milliseconds.
    private static let minimumHeldTime: Int64 = 1000
    /// The maximum duration of a release, in milliseconds.
    private static let maximumReleaseLatency: Int64 = 3000
    /// The delay until a sidecar notices a closed connection, in milliseconds.
    private static let disconnectGrace: Int64 = 100

    private var calls: [(leftAt: Instant, releasedBy: Instant, expiry: Instant)] = []
    private var lastRelease = Instant.distantPast

    /// Call when a client left. Returns the end of the period in which a lease of its call counts.
    /// - Parameters:
    ///   - heldUntil: the latest end of other clients' leases unless they release them.
    ///   - expiry: when the lease would expire.
    mutating func clientLeft(
        _ call: Call, at instant: Instant, heldUntil: Instant?, expiry: Instant, recovery: Int64, faults: FaultLog
    ) -> Instant {
        let releasedBy = instant.advanced(byMilliseconds: Self.releaseTime)
        guard let heldUntil, heldUntil > instant.advanced(byMilliseconds: Self.minimumHeldTime),
            lastRelease.advanced(byMilliseconds: Self.maximumReleaseLatency) < instant,
            !faults.wasActive(.outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery)),
            releasedBy < expiry
        else { return expiry }
        calls.removeAll { $0.releasedBy < instant }
        calls.append((instant, releasedBy, expiry))
        return releasedBy
    }

    /// Call when a client sent a release and closed its connection. Returns the end of the period in which the lease
    /// counts.
    /// - Parameter expiry: when the lease would expire.
    mutating func connectionClosed(
        after release: Call, at instant: Instant, expiry: Instant, recovery: Int64, faults: FaultLog
    ) -> Instant {
        let releasedBy = instant.advanced(byMilliseconds: Self.releaseTime)
        let since = release.invoked.advanced(byMilliseconds: -recovery)
        guard releasedBy < expiry, !faults.wasActive(.outage, sidecar: release.sidecar, since: since),
            !faults.wasActive(.cutOff, sidecar: release.sidecar, since: since)
        else { return expiry }
        calls.removeAll { $0.releasedBy < instant }
        calls.append((instant, releasedBy, expiry))
        return releasedBy
    }

    /// Call when the lock may have been released. Returns the end of the period in which leases of clients that just
    /// left may last; `nil` if there are none.
    mutating func released(at instant: Instant) -> Instant? {
        lastRelease = instant
        return calls.filter { $0.leftAt.advanced(byMilliseconds: Self.disconnectGrace) >= instant }.map(\.expiry).max()
    }

    /// Call when a fault begins. Returns the latest end of an unreleased lease; `nil` if there are none.
    mutating func faultBegan(_ kind: FaultKind, at instant: Instant) -> Instant? {
        // Vanishing clients do not keep sidecars from releasing leases.
        guard kind.target != .clients else { return nil }
        defer { calls = [] }
        return calls.filter { $0.releasedBy >= instant }.map(\.expiry).max()
    }
}
