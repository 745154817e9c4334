/// Calls for one lock without a good answer while something held messages back: a stopped sidecar, a stopped Redis or the
/// network. They may still be carried out later. Bounded by sidecars.
struct LateCalls: Sendable {
    /// How long a message may still be under way when the fault ends, in ms.
    private static let slack: Int64 = 1000

    /// By sidecar: the longest TTL that was asked for, in ms.
    private var longest: [Int: Int64] = [:]

    mutating func unanswered(_ call: Call, ttl: Int64, faults: FaultLog) {
        notHeard(by: call.sidecar, ttl: ttl, faults: faults)
    }

    /// A client left its linked lease. A sidecar that hears of it late may still extend the lease.
    mutating func notHeard(by sidecar: Int, ttl: Int64, faults: FaultLog) {
        guard faults.isUnderWay(.heldBack, sidecar: sidecar) else { return }
        longest[sidecar] = max(longest[sidecar] ?? 0, ttl)
    }

    /// A fault ended. Returns how long, in ms, such a call may hold the lock from now on; `nil` if there is none.
    mutating func ended(_ kind: FaultKind, sidecar: Int?, faults: FaultLog) -> Int64? {
        guard kind.mayCause(.heldBack) else { return nil }
        let concerned = longest.filter { sidecar == nil || sidecar == $0.key }
        guard let ttl = concerned.values.max() else { return nil }
        for place in concerned.keys where !faults.isUnderWay(.heldBack, sidecar: place) { longest[place] = nil }
        return ttl + Self.slack
    }
}
