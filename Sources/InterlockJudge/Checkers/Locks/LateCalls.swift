/// Calls for one lock that got no certain answer while a stopped sidecar, a stopped Redis server or the network held
/// messages back. They may still take effect later. Uses O(sidecars) memory.
struct LateCalls: Sendable {
    /// The maximum time from the end of the fault to the arrival of a message, in milliseconds.
    private static let slackMilliseconds: Int64 = 1000

    /// The maximum requested TTL in milliseconds, by sidecar.
    private var maximumTTLMilliseconds: [Int: Int64] = [:]

    /// Records that a call got no certain answer.
    mutating func recordUnanswered(_ call: Call, ttlMilliseconds: Int64, faults: FaultLog) {
        recordUnconfirmed(by: call.sidecar, ttlMilliseconds: ttlMilliseconds, faults: faults)
    }

    /// Records that a client left its linked lease, or that a call has no certain answer. A sidecar that processes
    /// either late may still renew or grant the lease.
    mutating func recordUnconfirmed(by sidecar: Int, ttlMilliseconds: Int64, faults: FaultLog) {
        guard faults.isActive(.heldBack, sidecar: sidecar) else { return }
        maximumTTLMilliseconds[sidecar] = max(maximumTTLMilliseconds[sidecar] ?? 0, ttlMilliseconds)
    }

    /// Handles the end of a fault. Returns the time in milliseconds for which a late call may hold the lock from now
    /// on; `nil` if there is no such call.
    mutating func faultEnded(_ kind: FaultKind, sidecar: Int?, faults: FaultLog) -> Int64? {
        guard kind.mayCause(.heldBack) else { return nil }
        let affected = maximumTTLMilliseconds.filter { sidecar == nil || sidecar == $0.key }
        guard let ttlMilliseconds = affected.values.max() else { return nil }
        for sidecar in affected.keys where !faults.isActive(.heldBack, sidecar: sidecar) {
            maximumTTLMilliseconds[sidecar] = nil
        }
        return ttlMilliseconds + Self.slackMilliseconds
    }
}
