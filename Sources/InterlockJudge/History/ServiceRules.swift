/// The properties of a service that the checkers need.
package struct ServiceRules: Hashable, Sendable, Codable {
    package var name: String
    package var limits: [LimitRule]
    /// The policy of a sidecar without Redis; see `LimitRule.boundsWithoutRedis`.
    package var whenRedisIsDown: OutagePolicyName
    /// The number of concurrent trial permits in the fleet; `nil` if no report can trip the breaker.
    package var halfOpenPermits: Int?
    /// How long an unreported permit counts, in milliseconds.
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
