/// Calls for one lock that got no certain answer while a stopped sidecar, a stopped Redis or the network held messages
/// back. They may still take effect later. Uses O(sidecars) memory.
struct LateCalls: Sendable {
    /// The time that a message may need after the end of the fault, in milliseconds.
    private static let slack: Int64 = 1000

    /// The maximum requested TTL in milliseconds, by sidecar.
    private var maximumTTLs: [Int: Int64] = [:]

    mutating func unanswered(_ call: Call, ttl: Int64, faults: FaultLog) {
        unconfirmed(by: call.sidecar, ttl: ttl, faults: faults)
    }

    /// Records that a client left its linked lease, or that a call has no certain answer. A sidecar that processes
    /// either late may still renew or grant the lease.
    mutating func unconfirmed(by sidecar: Int, ttl: Int64, faults: FaultLog) {
        guard faults.isActive(.heldBack, sidecar: sidecar) else { return }
        maximumTTLs[sidecar] = max(maximumTTLs[sidecar] ?? 0, ttl)
    }

    /// Call when a fault has ended. Returns the time in milliseconds for which a late call may hold the lock from now
    /// on; `nil` if there is none.
    mutating func ended(_ kind: FaultKind, sidecar: Int?, faults: FaultLog) -> Int64? {
        guard kind.mayCause(.heldBack) else { return nil }
        let affected = maximumTTLs.filter { sidecar == nil || sidecar == $0.key }
        guard let ttl = affected.values.max() else { return nil }
        for number in affected.keys where !faults.isActive(.heldBack, sidecar: number) { maximumTTLs[number] = nil }
        return ttl + Self.slack
    }
}
