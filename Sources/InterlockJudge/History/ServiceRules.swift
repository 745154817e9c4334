/// The properties of a service that the checkers need.
package struct ServiceRules: Hashable, Sendable, Codable {
    package var name: String
    package var limits: [LimitRule]
    /// The policy of a sidecar that cannot use Redis; see `LimitRule.boundsWithoutRedis`.
    package var whenRedisIsDown: OutagePolicyName
    /// The number of concurrent trial permits in the fleet; `nil` if no report can trip the breaker.
    package var halfOpenPermits: Int?
    /// The time after which an unreported permit no longer counts, in milliseconds.
    package var permitLifetimeMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case name, limits, whenRedisIsDown, halfOpenPermits
        case permitLifetimeMilliseconds = "permitLifetime"
    }

    package init(
        name: String, limits: [LimitRule], whenRedisIsDown: OutagePolicyName = .deny, halfOpenPermits: Int? = nil,
        permitLifetimeMilliseconds: Int64 = 60_000
    ) {
        self.name = name
        self.limits = limits
        self.whenRedisIsDown = whenRedisIsDown
        self.halfOpenPermits = halfOpenPermits
        self.permitLifetimeMilliseconds = permitLifetimeMilliseconds
    }
}
