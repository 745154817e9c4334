internal import InterlockCore

/// Calls without an OWNER whose clients disconnected while they waited for one lock. If Redis grants such a call a
/// lease, its sidecar releases the lease, unless a fault intervenes. If the lock may just have become free, the sidecar
/// may have sent the answer already, and cannot know that the client did not read it. Memory grows with the clients
/// that leave within `releaseMilliseconds`.
struct AbandonedCalls: Sendable {
    /// The time within which a sidecar releases a lease that was granted to a client that left, in milliseconds.
    static let releaseMilliseconds: Int64 = 500
    /// The minimum remaining time of another client's lease for the lock to be known to be held, in milliseconds.
    private static let minimumHeldMilliseconds: Int64 = 1000
    /// The maximum duration of a release, in milliseconds.
    private static let maximumReleaseLatencyMilliseconds: Int64 = 3000
    /// The delay until a sidecar notices a closed connection, in milliseconds.
    private static let disconnectGraceMilliseconds: Int64 = 100

    private var calls: [(leftAt: Instant, releasedBy: Instant, expiry: Instant)] = []
    private var lastRelease = Instant.distantPast

    /// Records that a client left. Returns the end of the period in which a lease of its call counts.
    /// - Parameters:
    ///   - heldUntil: the latest end of other clients' leases if they are not released; `nil` if there are none.
    ///   - expiry: the time at which the lease would expire.
    ///   - recoveryMilliseconds: the recovery time of the rules.
    mutating func clientLeft(
        _ call: Call, at instant: Instant, heldUntil: Instant?, expiry: Instant, recoveryMilliseconds: Int64,
        faults: FaultLog
    ) -> Instant {
        let releasedBy = instant.advanced(byMilliseconds: Self.releaseMilliseconds)
        guard let heldUntil, heldUntil > instant.advanced(byMilliseconds: Self.minimumHeldMilliseconds),
            lastRelease.advanced(byMilliseconds: Self.maximumReleaseLatencyMilliseconds) < instant,
            !faults.wasActive(
                .outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recoveryMilliseconds)),
            releasedBy < expiry
        else { return expiry }
        calls.removeAll { $0.releasedBy < instant }
        calls.append((instant, releasedBy, expiry))
        return releasedBy
    }

    /// Records that a client sent a release and closed its connection. Returns the end of the period in which the lease
    /// counts.
    /// - Parameters:
    ///   - expiry: the time at which the lease would expire.
    ///   - recoveryMilliseconds: the recovery time of the rules.
    mutating func connectionClosed(
        after release: Call, at instant: Instant, expiry: Instant, recoveryMilliseconds: Int64,
        faults: FaultLog
    ) -> Instant {
        let releasedBy = instant.advanced(byMilliseconds: Self.releaseMilliseconds)
        let since = release.invoked.advanced(byMilliseconds: -recoveryMilliseconds)
        guard releasedBy < expiry, !faults.wasActive(.outage, sidecar: release.sidecar, since: since),
            !faults.wasActive(.cutOff, sidecar: release.sidecar, since: since)
        else { return expiry }
        calls.removeAll { $0.releasedBy < instant }
        calls.append((instant, releasedBy, expiry))
        return releasedBy
    }

    /// Records that the lock may have been released. Returns the latest end of the leases that Redis may then have
    /// granted to clients that had just left; `nil` if no client has.
    mutating func lockMayBeReleased(at instant: Instant) -> Instant? {
        lastRelease = instant
        let unnoticed = calls.filter {
            $0.leftAt.advanced(byMilliseconds: Self.disconnectGraceMilliseconds) >= instant
        }
        return unnoticed.map(\.expiry).max()
    }

    /// Forgets all calls when a fault begins. Returns the latest end of the leases that may not have been released yet;
    /// `nil` if there are no such leases.
    mutating func faultBegan(_ kind: FaultKind, at instant: Instant) -> Instant? {
        // Vanishing clients do not keep sidecars from releasing leases.
        guard kind.target != .clients else { return nil }
        defer { calls = [] }
        return calls.filter { $0.releasedBy >= instant }.map(\.expiry).max()
    }
}
