/// The description of a service by which its history is judged.
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
