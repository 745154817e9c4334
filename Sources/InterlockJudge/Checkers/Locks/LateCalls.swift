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
    mutating func ended(sidecar: Int?, faults: FaultLog) -> Int64? {
        let concerned = longest.filter { sidecar == nil || sidecar == $0.key }
        guard let ttl = concerned.values.max() else { return nil }
        for place in concerned.keys where !faults.isUnderWay(.heldBack, sidecar: place) { longest[place] = nil }
        return ttl + Self.slack
    }
}
