package import InterlockCore
internal import InterlockJudge

/// The services of a fleet that the harness starts: limits of each algorithm, breakers, and a service behind the proxy.
package struct StandardServices: Sendable {
    package let services: [FleetService]
    /// The operations of a run on these services.
    package let load: LoadServices

    /// The numbers of the services with bad phases: those with permits, and the one behind the proxy.
    private let failingServiceNumbers: [Int]

    /// Creates the services.
    /// - Parameters:
    ///   - upstream: the URL of a `BenchUpstream`; `nil` if no service is called through the proxy.
    ///   - extraCount: the number of identical additional services. If it is above 0, all takes and permits go to these
    ///     services, to measure the cost of many services.
    package init(upstream: String? = nil, extraCount: Int = 0) {
        var services = Self.limitedServices + Self.guardedServices
        let limitedNumbers = Array(Self.limitedServices.indices)
        let guardedNumbers = Array(Self.limitedServices.count..<services.count)
        var proxiedNumbers: [Int] = []
        if let upstream {
            proxiedNumbers = [services.count]
            services.append(
                FleetService(
                    rules: ServiceRules(
                        name: "bench-upstream", limits: [], whenRedisIsDown: .allow, halfOpenPermits: 3,
                        permitLifetimeMilliseconds: 10_000),
                    url: upstream))
        }
        let extraNumbers = Array(services.count..<services.count + max(0, extraCount))
        services += (0..<max(0, extraCount)).map(Self.extraService)
        self.services = services
        failingServiceNumbers = guardedNumbers + proxiedNumbers
        load = LoadServices(
            rules: services.map(\.rules), takeServiceNumbers: extraNumbers.isEmpty ? limitedNumbers : extraNumbers,
            permitServiceNumbers: extraNumbers.isEmpty ? guardedNumbers : extraNumbers,
            proxiedServiceNumbers: proxiedNumbers)
    }

    /// Draws the bad phases of each failing service, independently of those of the others.
    package func failurePhases(length: Duration, random: SeededRandom) -> [Int: FailurePhases] {
        var random = random
        return Dictionary(
            uniqueKeysWithValues: failingServiceNumbers.map {
                ($0, FailurePhases(length: length, random: random.split()))
            })
    }

    private static let limitedServices: [FleetService] = [
        limitedService("bench-fixed", .local, [LimitRule(algorithm: .fixed, limit: 200, windowMilliseconds: 1000)]),
        limitedService("bench-sliding", .deny, [LimitRule(algorithm: .sliding, limit: 200, windowMilliseconds: 1000)]),
        limitedService(
            "bench-gcra", .local, [LimitRule(algorithm: .gcra, limit: 200, windowMilliseconds: 1000, burst: 40)]),
        limitedService(
            "bench-tenants", .deny,
            [
                LimitRule(algorithm: .fixed, limit: 500, windowMilliseconds: 1000),
                LimitRule(algorithm: .fixed, limit: 10, windowMilliseconds: 1000, isPerSubject: true),
            ]),
    ]

    /// The services with permits. The short permit lifetime soon frees the slots of permits without a report.
    private static let guardedServices: [FleetService] = [
        FleetService(
            rules: ServiceRules(
                name: "bench-calls", limits: [], whenRedisIsDown: .deny, halfOpenPermits: 3,
                permitLifetimeMilliseconds: 2000)),
        FleetService(
            rules: ServiceRules(
                name: "bench-limited-calls",
                limits: [LimitRule(algorithm: .sliding, limit: 300, windowMilliseconds: 1000)],
                whenRedisIsDown: .deny, halfOpenPermits: 5, permitLifetimeMilliseconds: 2000)),
    ]

    private static func limitedService(
        _ name: String, _ outage: OutagePolicyName, _ limits: [LimitRule]
    ) -> FleetService {
        FleetService(rules: ServiceRules(name: name, limits: limits, whenRedisIsDown: outage))
    }

    private static func extraService(_ number: Int) -> FleetService {
        FleetService(
            rules: ServiceRules(
                name: "bench-service-\(number)",
                limits: [LimitRule(algorithm: .fixed, limit: 100_000, windowMilliseconds: 1000)],
                halfOpenPermits: 3, permitLifetimeMilliseconds: 2000))
    }
}
