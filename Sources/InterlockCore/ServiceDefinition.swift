/// An external API or upstream that calls are made to: its limits, its breaker, and what happens when they bind.
public struct ServiceDefinition: Hashable, Sendable {
    /// The service's name; keeps the rule of `ResourceName`.
    public var name: String
    /// Checked together: a call takes from all that apply to it, or from none.
    public var limits: [LimitDefinition]
    public var onLimit: LimitPolicy
    public var breaker: BreakerSettings
    public var whenRedisIsDown: OutagePolicy
    /// For how long a permit's outcome is awaited; later reports are refused, and a half-open permit lapses.
    public var permitLifetime: Duration

    public init(
        name: String,
        limits: [LimitDefinition] = [],
        onLimit: LimitPolicy = LimitPolicy(),
        breaker: BreakerSettings = BreakerSettings(),
        whenRedisIsDown: OutagePolicy = .local,
        permitLifetime: Duration = .seconds(60)
    ) {
        self.name = name
        self.limits = limits
        self.onLimit = onLimit
        self.breaker = breaker
        self.whenRedisIsDown = whenRedisIsDown
        self.permitLifetime = permitLifetime
    }
}
