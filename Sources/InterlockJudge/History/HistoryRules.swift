internal import InterlockCore

/// What a history is judged by.
package struct HistoryRules: Hashable, Sendable, Codable {
    /// The services by their numbers.
    package var services: [ServiceRules]
    /// How many sidecars there are.
    package var sidecars: Int
    /// An operation is answered within its wait plus this, in ms, or its connection is closed.
    package var patience: Int64
    /// Every sidecar serves again this long after a fault, in ms.
    package var recovery: Int64
    /// The longest time, in ms, that a wanted lock stays free while nothing is broken; `nil`: `recovery`.
    package var handOver: Int64?
    /// By which share of the time Redis' clock may run fast or slow against the history's. 0 on one machine.
    package var clockDrift: Double
    /// Whether every lock is at all replicas before it is handed out, so that no failover may lose one; `nil`, as in older histories: no.
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

    /// When a lease of `ttl` ms is over that was set at `instant` at the latest: by a clock that drifts, and a little after that.
    func leaseEnd(_ ttl: Int64, after instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: ttl + Int64(Double(ttl) * clockDrift) + 5)
    }
}
