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

/// What is known of a service.
package struct ServiceRules: Hashable, Sendable, Codable {
    package var name: String
    package var limits: [LimitRule]
    /// What a sidecar does without Redis; see `LimitRule.boundsWithoutRedis`.
    package var whenRedisIsDown: OutagePolicyName
    /// Trial permits of the fleet; `nil` if no report can trip its breaker.
    package var halfOpenPermits: Int?
    /// How long an unreported permit counts, in ms.
    package var permitLifetime: Int64

    package init(
        name: String, limits: [LimitRule], whenRedisIsDown: OutagePolicyName = .deny, halfOpenPermits: Int? = nil,
        permitLifetime: Int64 = 60_000
    ) {
        self.name = name
        self.limits = limits
        self.whenRedisIsDown = whenRedisIsDown
        self.halfOpenPermits = halfOpenPermits
        self.permitLifetime = permitLifetime
    }
}

/// `when_redis_is_down` as the configuration spells it.
package enum OutagePolicyName: String, Hashable, Sendable, Codable {
    case local, allow, deny
}

/// One limit as it is judged.
package struct LimitRule: Hashable, Sendable, Codable {
    package enum Algorithm: String, Hashable, Sendable, Codable {
        case fixed, sliding, gcra
    }

    /// Its windows begin with a call and end a length later; `false`: its promise is of every window, wherever that begins.
    package var hasOwnWindows: Bool {
        switch algorithm {
        case .fixed: true
        case .sliding, .gcra: false
        }
    }

    package var algorithm: Algorithm
    /// Calls in a window.
    package var limit: Int64
    /// In milliseconds.
    package var window: Int64
    /// For `gcra` only.
    package var burst: Int64
    package var isPerSubject: Bool

    package init(algorithm: Algorithm, limit: Int64, window: Int64, burst: Int64 = 0, isPerSubject: Bool = false) {
        self.algorithm = algorithm
        self.limit = limit
        self.window = window
        self.burst = burst
        self.isPerSubject = isPerSubject
    }
}
