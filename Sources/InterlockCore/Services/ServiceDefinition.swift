/// The definition of a service, an external API or upstream: its limits, its breaker, and the behavior when they apply.
public struct ServiceDefinition: Hashable, Sendable {
    /// The name of the service: 1 to 256 bytes without colons, control characters, spaces or braces.
    public var name: String
    /// The upstream that the proxy calls; `nil` if the proxy does not serve this service.
    package var upstream: UpstreamSettings?
    /// The limits. A call takes from all limits that apply to it, or is refused and takes nothing.
    public var limits: [LimitDefinition]
    /// The behavior when a limit is reached.
    public var onLimit: LimitPolicy
    /// The maximum number of concurrent permits of this sidecar; `nil` for no limit.
    public var concurrency: Int?
    /// The maximum number of subjects with their own counters, at least 1. Further subjects share one counter in each
    /// limit.
    public var maximumSubjects: Int
    /// The conditions under which the breaker trips and closes again.
    public var breaker: BreakerSettings
    /// The probes of the outage monitor; `nil` if the service is not probed.
    package var probe: ProbeSettings?
    /// The behavior of limits and breaker while Redis is unreachable.
    public var whenRedisIsDown: OutagePolicy
    /// The time to wait for the report of a permit's outcome. Later reports are refused, and a trial permit lapses.
    public var permitLifetime: Duration

    /// Creates a service. Omitted settings have their defaults.
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

    /// Creates a service of a sidecar, whose proxy calls `upstream` and whose outage monitor sends the probes.
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
    /// All settings except the name, which is stored next to the digest.
    package var digestedParts: Parts {
        [
            ("upstream", upstream), ("limits", limits), ("onLimit", onLimit), ("concurrency", concurrency),
            ("maximumSubjects", maximumSubjects), ("breaker", breaker), ("probe", probe),
            ("whenRedisIsDown", whenRedisIsDown),
            ("permitLifetime", permitLifetime),
        ]
    }

    /// A 64-bit digest, as 16 hexadecimal digits. Sidecars compare it to detect different definitions of a service.
    package var digest: String {
        var unset = Self.unset.union(Self.laterUpstream)
        // Limits and upstreams write defaults as well, except for settings that the first version did not have.
        for index in limits.indices { unset.insert(".limits.\(index).requiresSubject=false") }
        return TextDigest.of(digestedLines(except: unset))
    }

    private static let unset = Set(ServiceDefinition(name: "").digestedLines())
    /// The lines with the defaults of upstream settings that the first version did not have.
    private static let laterUpstream = Set(
        UpstreamSettings(url: "").digestedLines(at: ".upstream.some").filter { setting in
            [".upstream.some.idleTimeout=", ".upstream.some.connections."].contains { setting.hasPrefix($0) }
        })
}
