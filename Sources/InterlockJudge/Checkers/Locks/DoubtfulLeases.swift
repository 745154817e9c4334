internal import InterlockCore

/// Calls for one lock that had no good answer while something was held back, by a sidecar or a Redis that stands still or by the
/// network: they may yet be carried out when that goes on. Bounded by sidecars.
struct LateCalls: Sendable {
    /// For how long what was held back may be under way then, in ms.
    private static let slack: Int64 = 1000

    /// By sidecar: the longest that was asked for, in ms.
    private var longest: [Int: Int64] = [:]

    mutating func unanswered(_ call: Call, ttl: Int64, faults: FaultLog) {
        notHeard(by: call.sidecar, ttl: ttl, faults: faults)
    }

    /// A client has left its linked lease: a sidecar that hears of it late may extend it before.
    mutating func notHeard(by sidecar: Int, ttl: Int64, faults: FaultLog) {
        guard faults.isUnderWay(.heldBack, sidecar: sidecar) else { return }
        longest[sidecar] = max(longest[sidecar] ?? 0, ttl)
    }

    /// A fault is over. Returns for how many ms at most the lock may be held from now on by such a call; `nil`: there is none.
    mutating func ended(_ kind: FaultKind, sidecar: Int?, faults: FaultLog) -> Int64? {
        guard kind.holdsBack else { return nil }
        let concerned = longest.filter { sidecar == nil || sidecar == $0.key }
        guard let ttl = concerned.values.max() else { return nil }
        for place in concerned.keys where !faults.isUnderWay(.heldBack, sidecar: place) { longest[place] = nil }
        return ttl + Self.slack
    }
}

/// The leases of one lock of which only Redis knows the end: they were in force when its clock jumped, and last for longer or
/// shorter than anybody can tell. Bounded by the leases that are in force then.
struct ClockLeases: Sendable {
    private var leases: Set<LeaseID> = []
    /// There may be more of them that nobody was told of.
    private var mayBeMore = false

    var isEmpty: Bool { leases.isEmpty && !mayBeMore }

    /// - Parameter mayBeMore: there were calls under way, or some had no answer.
    mutating func clockJumped(_ held: some Sequence<LeaseID>, mayBeMore: Bool) {
        leases.formUnion(held)
        if mayBeMore { self.mayBeMore = true }
    }

    mutating func ended(_ lease: LeaseID) { leases.remove(lease) }

    /// Somebody has the lock alone who asked for it after the jump: there is no other lease.
    mutating func removeAll() { self = ClockLeases() }
}

/// Calls for one lock without an OWNER whose clients went away while they waited: what they are granted all the same is given back,
/// unless something breaks before that. Who went away as the lock may have become free may have had its answer sent: nobody
/// knows then that it was not read. Bounded by those that went away within a moment.
struct AbandonedCalls: Sendable {
    /// What is granted to nobody is given back within so many ms.
    static let givingBack: Int64 = 500
    /// The lock certainly is another's whose lease lasts so much longer, in ms.
    private static let certainty: Int64 = 1000
    /// A release may be under way for so long, and the end of a connection, in ms.
    private static let release: Int64 = 3000
    private static let farewell: Int64 = 100

    private var calls: [(left: Instant, isGivenBack: Instant, isOver: Instant)] = []
    private var lastRelease = Instant.distantPast

    /// A client has gone away. Returns until when its lease counts.
    /// - Parameters:
    ///   - heldUntil: until when others have the lock, unless it is released.
    ///   - isOver: when its lease would be over by itself.
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

    /// A lease of the lock may end now. Returns as `faultBegan`, of those that have just left.
    mutating func released(at instant: Instant) -> Instant? {
        lastRelease = instant
        return calls.filter { $0.left.advanced(byMilliseconds: Self.farewell) >= instant }.map(\.isOver).max()
    }

    /// Something breaks. Returns until when leases may stand that are not given back yet; `nil`: there are none.
    mutating func faultBegan(_ kind: FaultKind, at instant: Instant) -> Instant? {
        guard kind != .vanish else { return nil }
        defer { calls = [] }
        return calls.filter { $0.isGivenBack >= instant }.map(\.isOver).max()
    }
}
