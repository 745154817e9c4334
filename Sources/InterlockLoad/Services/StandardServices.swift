package import InterlockCore
internal import InterlockJudge

/// The services of a fleet that the harness starts: limits of each algorithm, breakers, and a service behind the proxy.
package struct StandardServices: Sendable {
    package let services: [FleetService]
    /// The operations of a run on these services.
    package let load: LoadServices

    /// The services with bad phases: those with permits, and the one behind the proxy.
    private let failing: [Int]

    /// - Parameters:
    ///   - upstream: the URL of a `BenchUpstream`; `nil` if no service is called through the proxy.
    ///   - extra: the number of identical additional services. If there are any, all takes and permits go to them, to
    ///     measure the cost of many services.
    package init(upstream: String? = nil, extra: Int = 0) {
        var services = Self.limited + Self.guarded
        let limited = Array(Self.limited.indices)
        let guarded = Array(Self.limited.count..<services.count)
        var proxied: [Int] = []
        if let upstream {
            proxied = [services.count]
            services.append(
                FleetService(
                    rules: ServiceRules(
                        name: "bench-upstream", limits: [], whenRedisIsDown: .allow, halfOpenPermits: 3,
                        permitLifetime: 10_000),
                    url: upstream))
        }
        let extras = Array(services.count..<services.count + max(0, extra))
        services += (0..<max(0, extra)).map(Self.extra)
        self.services = services
        failing = guarded + proxied
        load = LoadServices(
            rules: services.map(\.rules), takes: extras.isEmpty ? limited : extras, permits: extras.isEmpty ? guarded : extras,
            proxied: proxied)
    }

    /// Returns the bad phases of each failing service, drawn independently from the seed.
    package func failurePhases(length: Duration, random: SeededRandom) -> [Int: FailurePhases] {
        var random = random
        return Dictionary(uniqueKeysWithValues: failing.map { ($0, FailurePhases(length: length, random: random.split())) })
    }

    private static let limited: [FleetService] = [
        limited("bench-fixed", .local, [LimitRule(algorithm: .fixed, limit: 200, window: 1000)]),
        limited("bench-sliding", .deny, [LimitRule(algorithm: .sliding, limit: 200, window: 1000)]),
        limited("bench-gcra", .local, [LimitRule(algorithm: .gcra, limit: 200, window: 1000, burst: 40)]),
        limited(
            "bench-tenants", .deny,
            [
                LimitRule(algorithm: .fixed, limit: 500, window: 1000),
                LimitRule(algorithm: .fixed, limit: 10, window: 1000, isPerSubject: true),
            ]),
    ]

    /// The short permit lifetime frees the slots of permits without a report.
    private static let guarded: [FleetService] = [
        FleetService(
            rules: ServiceRules(
                name: "bench-calls", limits: [], whenRedisIsDown: .deny, halfOpenPermits: 3, permitLifetime: 2000)),
        FleetService(
            rules: ServiceRules(
                name: "bench-limited-calls", limits: [LimitRule(algorithm: .sliding, limit: 300, window: 1000)],
                whenRedisIsDown: .deny, halfOpenPermits: 5, permitLifetime: 2000)),
    ]

    private static func limited(_ name: String, _ outage: OutagePolicyName, _ limits: [LimitRule]) -> FleetService {
        FleetService(rules: ServiceRules(name: name, limits: limits, whenRedisIsDown: outage))
    }

    private static func extra(_ number: Int) -> FleetService {
        FleetService(
            rules: ServiceRules(
                name: "bench-service-\(number)", limits: [LimitRule(algorithm: .fixed, limit: 100_000, window: 1000)],
                halfOpenPermits: 3, permitLifetime: 2000))
    }
}
