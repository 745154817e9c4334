internal import InterlockCore

/// The rules to judge a history by.
package struct HistoryRules: Hashable, Sendable, Codable {
    /// The services, by number.
    package var services: [ServiceRules]
    /// The number of sidecars.
    package var sidecars: Int
    /// The time in milliseconds, in addition to its wait, within which an operation ends: the sidecar answers it or
    /// closes its connection.
    package var patienceMilliseconds: Int64
    /// The time in milliseconds after a fault within which every sidecar serves again.
    package var recoveryMilliseconds: Int64
    /// The maximum time in milliseconds for which a requested lock may stay free while no fault is active; `nil` means
    /// `recoveryMilliseconds`.
    package var handOverMilliseconds: Int64?
    /// The fraction by which the Redis clock may run faster or slower than the history's clock. 0 on one machine.
    package var clockDrift: Double
    /// Whether every lock reaches all replicas before it is granted, so that no failover may lose a lock. Older
    /// histories contain `nil`, which means `false`.
    package var keepsLocks: Bool?

    private enum CodingKeys: String, CodingKey {
        case services, sidecars
        case patienceMilliseconds = "patience"
        case recoveryMilliseconds = "recovery"
        case handOverMilliseconds = "handOver"
        case clockDrift, keepsLocks
    }

    package init(
        services: [ServiceRules], sidecars: Int, patienceMilliseconds: Int64, recoveryMilliseconds: Int64,
        handOverMilliseconds: Int64? = nil, clockDrift: Double = 0, keepsLocks: Bool = false
    ) {
        self.keepsLocks = keepsLocks
        self.services = services
        self.sidecars = sidecars
        self.patienceMilliseconds = patienceMilliseconds
        self.recoveryMilliseconds = recoveryMilliseconds
        self.handOverMilliseconds = handOverMilliseconds
        self.clockDrift = clockDrift
    }

    /// Returns the latest end of a lease that was granted or renewed no later than `instant`, including clock drift and
    /// a small margin.
    func leaseEnd(_ ttlMilliseconds: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: ttlMilliseconds + Int64(Double(ttlMilliseconds) * clockDrift) + 5)
    }
}
