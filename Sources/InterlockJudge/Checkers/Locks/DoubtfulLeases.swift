internal import InterlockCore

/// Calls for one lock that had no good answer while something was held back, by a sidecar or a Redis that stands still or by the
/// network: they may yet be carried out when that goes on. Bounded by sidecars.
struct LateCalls: Sendable {
    /// For how long what was held back may be under way then, in ms.
    private static let slack: Int64 = 1000

    /// By sidecar: the longest that was asked for, in ms.
    private var longest: [Int: Int64] = [:]

    mutating func unanswered(_ call: Call, ttl: Int64, faults: FaultLog) {
        guard faults.isUnderWay(.heldBack, sidecar: call.sidecar) else { return }
        longest[call.sidecar] = max(longest[call.sidecar] ?? 0, ttl)
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
