internal import InterlockCore

/// Calls without an OWNER whose clients went away while they waited for one lock. Their sidecar gives back what they are still
/// granted, unless a fault intervenes. If the lock may just have become free, the answer may have been sent, and nobody knows
/// that it was not read. Bounded by the clients that leave within a moment.
struct AbandonedCalls: Sendable {
    /// A lease that is granted to nobody is given back within this many ms.
    static let givingBack: Int64 = 500
    /// The lock is certainly held by another client if that lease lasts this much longer, in ms.
    private static let certainty: Int64 = 1000
    /// How long a release, and the end of a connection, may be under way, in ms.
    private static let release: Int64 = 3000
    private static let farewell: Int64 = 100

    private var calls: [(left: Instant, isGivenBack: Instant, isOver: Instant)] = []
    private var lastRelease = Instant.distantPast

    /// A client has left. Returns until when its lease counts.
    /// - Parameters:
    ///   - heldUntil: until when others hold the lock, unless they release it.
    ///   - isOver: when its lease would end by itself.
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

    /// A client has sent a release and closed. Returns until when its lease counts.
    /// - Parameter isOver: when its lease would end by itself.
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

    /// A lease of the lock may end now. Returns until when the leases of clients that just left may last.
    mutating func released(at instant: Instant) -> Instant? {
        lastRelease = instant
        return calls.filter { $0.left.advanced(byMilliseconds: Self.farewell) >= instant }.map(\.isOver).max()
    }

    /// A fault begins. Returns until when leases may last that are not given back yet; `nil` if there are none.
    mutating func faultBegan(_ kind: FaultKind, at instant: Instant) -> Instant? {
        // Dying programs keep no sidecar from giving back.
        guard kind.target != .clients else { return nil }
        defer { calls = [] }
        return calls.filter { $0.isGivenBack >= instant }.map(\.isOver).max()
    }
}
