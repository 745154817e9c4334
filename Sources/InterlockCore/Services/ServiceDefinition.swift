/// An external API or upstream that calls are made to: its limits, its breaker, and what happens when they bind.
public struct ServiceDefinition: Hashable, Sendable {
    /// The service's name; keeps the rule of `ResourceName`.
    public var name: String
    /// Where it lives and how the proxy calls it; `nil`: the proxy does not.
    package var upstream: UpstreamSettings?
    /// Checked together: a call takes from all that apply to it, or from none.
    public var limits: [LimitDefinition]
    /// What happens when a limit is reached.
    public var onLimit: LimitPolicy
    /// The most permits that this sidecar gives at a time; `nil`: as many as are asked for.
    public var concurrency: Int?
    /// So many subjects have counters of their own, at least 1: those beyond share one in each limit.
    public var maximumSubjects: Int
    /// When its breaker trips, and how it comes back.
    public var breaker: BreakerSettings
    /// How outages are watched for; `nil`: they are not.
    package var probe: ProbeSettings?
    /// What limits and breaker do while Redis cannot be reached.
    public var whenRedisIsDown: OutagePolicy
    /// For how long a permit's outcome is awaited; later reports are refused, and a half-open permit lapses.
    public var permitLifetime: Duration

    /// A service; every setting that is left out has its default.
    public init(
        name: String,
        limits: [LimitDefinition] = [],
        onLimit: LimitPolicy = LimitPolicy(),
        concurrency: Int? = nil,
        maximumSubjects: Int = 100_000,
        breaker: BreakerSettings = BreakerSettings(),
        whenRedisIsDown: OutagePolicy = .local,
        permitLifetime: Duration = .seconds(60)
    ) {
        self.name = name
        self.limits = limits
        self.onLimit = onLimit
        self.concurrency = concurrency
        self.maximumSubjects = maximumSubjects
        self.breaker = breaker
        self.whenRedisIsDown = whenRedisIsDown
        self.permitLifetime = permitLifetime
    }

    /// Creates a service of a sidecar, whose proxy calls `upstream` and whose outage monitor sends `probe`.
    package init(
        name: String,
        upstream: UpstreamSettings?,
        limits: [LimitDefinition] = [],
        onLimit: LimitPolicy = LimitPolicy(),
        concurrency: Int? = nil,
        breaker: BreakerSettings = BreakerSettings(),
        probe: ProbeSettings? = nil,
        whenRedisIsDown: OutagePolicy = .local
    ) {
        self.init(
            name: name, limits: limits, onLimit: onLimit, concurrency: concurrency, breaker: breaker,
            whenRedisIsDown: whenRedisIsDown)
        self.upstream = upstream
        self.probe = probe
    }
}

extension ServiceDefinition: DigestedSetting {
    /// All settings except the name, which is written beside the digest.
    package var digestedParts: Parts {
        [
            ("upstream", upstream), ("limits", limits), ("onLimit", onLimit), ("concurrency", concurrency),
            ("maximumSubjects", maximumSubjects), ("breaker", breaker), ("probe", probe), ("whenRedisIsDown", whenRedisIsDown),
            ("permitLifetime", permitLifetime),
        ]
    }

    /// 64 bits by which sidecars find out that they run with different definitions of a service: 16 hexadecimal digits.
    package var digest: String {
        var unset = Self.unset.union(Self.laterUpstream)
        // Limits and upstreams write defaults as well, except for settings that the first version did not have.
        for index in limits.indices { unset.insert(".limits.\(index).requiresSubject=false") }
        return TextDigest.of(digestedLines(except: unset))
    }

    private static let unset = Set(ServiceDefinition(name: "").digestedLines())
    private static let laterUpstream = Set(
        UpstreamSettings(url: "").digestedLines(at: ".upstream.some").filter { setting in
            [".upstream.some.idleTimeout=", ".upstream.some.connections."].contains { setting.hasPrefix($0) }
        })
}
