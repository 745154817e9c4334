import InterlockCore

extension ServiceDefinition {
    static let withEverything = {
        var service = ServiceDefinition(
            name: "catalog",
            upstream: UpstreamSettings(
                url: "https://a.example/v1", connectTimeout: .milliseconds(1500), firstByteTimeout: .seconds(7),
                idleTimeout: .seconds(90), totalTimeout: .seconds(30),
                connections: ConnectionSettings(idle: .seconds(6), maximumAge: .seconds(70)),
                retries: RetrySettings(attempts: 2, budget: 0.25, minimumPerSecond: 3),
                fallback: .fixed(status: 503, body: "{}\n", mediaType: "application/json")),
            limits: [
                LimitDefinition(name: "1s", limit: 10, window: .seconds(1), isPerSubject: true, isShadow: true),
                LimitDefinition(
                    name: "1m", limit: 100, window: .seconds(60), algorithm: .sliding, isPerSubject: true, requiresSubject: true),
                LimitDefinition(name: "smooth", limit: 5, window: .milliseconds(250), algorithm: .gcra(burst: 4)),
            ],
            onLimit: LimitPolicy(
                action: .trip, pause: .milliseconds(500) ... .seconds(4), maximumWait: .seconds(6), maximumWaiting: 20),
            concurrency: 7,
            breaker: BreakerSettings(
                failureRate: 0.4, slowCall: .milliseconds(800), slowRate: 0.6, window: .calls(50), minimumCalls: 5,
                consecutiveFailures: 9, reporters: 2, openFor: .seconds(1) ... .seconds(30), halfOpenPermits: 4,
                failureStatuses: StatusSet(429...429, 502...504), ignoredStatuses: StatusSet(404...404),
                honorsRetryAfter: false, isMetricsOnly: true),
            probe: ProbeSettings(
                target: .http("/status"), interval: .seconds(2), timeout: .milliseconds(300),
                expectation: ProbeExpectation(
                    statuses: StatusSet(200...204, 301...302), headers: [.init(name: "X-State", value: "up")],
                    body: [.contains("ok"), .json(path: "$.a", equals: "1")]),
                unhealthyAfter: 4, healthyAfter: 5, isFollowedByTrial: true, origin: .all),
            whenRedisIsDown: .allow)
        service.maximumSubjects = 5000
        service.permitLifetime = .seconds(45)
        service.upstream?.certificateAuthority = "/etc/ca.pem"
        service.upstream?.speaksHTTP2 = true
        return service
    }()

    static let withOtherCases = {
        var service = ServiceDefinition(
            name: "mail",
            upstream: UpstreamSettings(
                url: "http://b.example", totalTimeout: nil, connections: ConnectionSettings(maximumAge: nil),
                fallback: .lastGood(maximumAge: .seconds(600))),
            onLimit: LimitPolicy(action: .wait),
            breaker: BreakerSettings(window: .time(.seconds(30))),
            probe: ProbeSettings(target: .tcp(host: "b.example", port: 5432)),
            whenRedisIsDown: .deny)
        service.upstream?.certificateAuthorityDigest = [1, 2, 3]
        return service
    }()
}

extension RateLimitDomain {
    static let withEverything = {
        var path = DescriptorRule(
            key: "path", value: DescriptorPattern("/v1/*/*.json"),
            limit: .rate(
                LimitDefinition(name: "default", limit: 9, window: .seconds(1), algorithm: .gcra(burst: 3)), isAligned: false))
        path.name = "files"
        path.replaces = ["address", "other"]
        path.isShadow = true
        path.isShared = true
        path.hasDetailedMetrics = true
        path.rules = [DescriptorRule(key: "method", value: DescriptorPattern(""), limit: .blocked(window: .seconds(60)))]
        let fixed = LimitDefinition(name: "default", limit: 8, window: .seconds(60))
        var address = DescriptorRule(key: "address", limit: .rate(fixed, isAligned: true), rules: [path])
        address.name = "address"
        var domain = RateLimitDomain(
            name: "edge", rules: [address, DescriptorRule(key: "internal", value: DescriptorPattern("yes"), limit: .unlimited)])
        domain.isIndependent = true
        domain.countsRefused = true
        domain.isShadow = true
        domain.whenRedisIsDown = .deny
        domain.maximumCounters = 10
        return domain
    }()
}
