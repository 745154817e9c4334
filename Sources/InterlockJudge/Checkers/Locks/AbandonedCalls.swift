internal import InterlockCore

/// Calls without an OWNER whose clients disconnected while they waited for one lock. Their sidecar releases the lease
/// if it is granted, unless a fault intervenes. If the lock may just have become free, the answer may already have been
/// sent, and the sidecar cannot know that it was not read. Memory is bounded by the clients that leave within a moment.
struct AbandonedCalls: Sendable {
    /// The time within which a sidecar releases a lease that was granted to a client that left, in ms.
    static let givingBack: Int64 = 500
    /// The minimum remaining time of another client's lease for the lock to be certainly held, in ms.
    private static let certainty: Int64 = 1000
    /// The time that a release may be active, and the delay until a sidecar notices a closed connection, in ms.
    private static let release: Int64 = 3000
    private static let farewell: Int64 = 100

    private var calls: [(left: Instant, isGivenBack: Instant, isOver: Instant)] = []
    private var lastRelease = Instant.distantPast

    /// Handles a client that left. Returns the time until which a lease of its call counts.
    /// - Parameters:
    ///   - heldUntil: the latest end of other clients' leases unless they release them.
    ///   - isOver: the time at which the lease would expire.
    mutating func left(
        _ call: Call, at instant: Instant, heldUntil: Instant?, isOver: Instant, recovery: Int64, faults: FaultLog
    ) -> Instant {
        let isGivenBack = instant.advanced(byMilliseconds: Self.givingBack)
        guard let heldUntil, heldUntil > instant.advanced(byMilliseconds: Self.certainty),
            lastRelease.advanced(byMilliseconds: Self.release) < instant,
            !faults.touches(.outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery)),
            isGivenBack < isOver
        else { return isOver }
        calls.removeAll { $0.isGivenBack < instant }
        calls.append((instant, isGivenBack, isOver))
        return isGivenBack
    }

    /// Handles a client that sent a release and closed its connection. Returns the time until which the lease counts.
    /// - Parameter isOver: the time at which the lease would expire.
    mutating func closed(
        behind release: Call, at instant: Instant, isOver: Instant, recovery: Int64, faults: FaultLog
    ) -> Instant {
        let isGivenBack = instant.advanced(byMilliseconds: Self.givingBack)
        let since = release.invoked.advanced(byMilliseconds: -recovery)
        guard isGivenBack < isOver, !faults.touches(.outage, sidecar: release.sidecar, since: since),
            !faults.touches(.cutOff, sidecar: release.sidecar, since: since)
        else { return isOver }
        calls.removeAll { $0.isGivenBack < instant }
        calls.append((instant, isGivenBack, isOver))
        return isGivenBack
    }

    /// Handles a possible release of the lock. Returns the time until which leases of clients that just left may last;
    /// `nil` if there are none.
    mutating func released(at instant: Instant) -> Instant? {
        lastRelease = instant
        return calls.filter { $0.left.advanced(byMilliseconds: Self.farewell) >= instant }.map(\.isOver).max()
    }

    /// Handles the start of a fault. Returns the time until which unreleased leases may last; `nil` if there are none.
    mutating func faultBegan(_ kind: FaultKind, at instant: Instant) -> Instant? {
        // Vanishing clients do not keep sidecars from releasing leases.
        guard kind.target != .clients else { return nil }
        defer { calls = [] }
        return calls.filter { $0.isGivenBack >= instant }.map(\.isOver).max()
    }
}
