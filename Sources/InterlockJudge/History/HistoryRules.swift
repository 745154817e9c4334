internal import InterlockCore

/// The rules to judge a history by.
package struct HistoryRules: Hashable, Sendable, Codable {
    /// The services, by number.
    package var services: [ServiceRules]
    /// The number of sidecars.
    package var sidecars: Int
    /// The time in milliseconds, beyond its wait, within which an operation is answered or its connection is closed.
    package var patience: Int64
    /// The time in milliseconds after a fault within which every sidecar serves again.
    package var recovery: Int64
    /// The maximum time in milliseconds for which a requested lock may stay free while no fault is active. `recovery`
    /// if `nil`.
    package var handOver: Int64?
    /// The fraction by which the Redis clock may run fast or slow against the history's. 0 on one machine.
    package var clockDrift: Double
    /// Whether every lock reaches all replicas before it is granted, so that no failover may lose one. `nil` in older
    /// histories, which means `false`.
    package var keepsLocks: Bool?

    package init(
        services: [ServiceRules], sidecars: Int, patience: Int64, recovery: Int64, handOver: Int64? = nil, clockDrift: Double = 0,
        keepsLocks: Bool = false
    ) {
        self.keepsLocks = keepsLocks
        self.services = services
        self.sidecars = sidecars
        self.patience = patience
        self.recovery = recovery
        self.handOver = handOver
        self.clockDrift = clockDrift
    }

    /// Returns the latest end of a lease of `ttl` ms that was granted or renewed no later than `instant`, including
    /// clock drift and a small margin.
    func leaseEnd(_ ttl: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: ttl + Int64(Double(ttl) * clockDrift) + 5)
    }
}
