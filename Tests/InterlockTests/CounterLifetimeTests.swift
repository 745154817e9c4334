import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import RedisClient
import Testing

/// Tests counters after the Redis clock was set back and after a rule was changed. The tests write counters that lie in
/// the future by the Redis clock, because a step back turns past times into future ones.
@Suite("No counter outlasts its window or the time in which its limit refills")
struct CounterLifetimeTests {
    private static func service(_ limit: LimitDefinition) -> ServiceDefinition {
        ServiceDefinition(name: "catalog", limits: [limit])
    }

    private static func limit(
        _ limit: Int64, per window: Duration, _ algorithm: LimitAlgorithm = .fixed
    ) -> LimitDefinition {
        LimitDefinition(name: "main", limit: limit, window: window, algorithm: algorithm)
    }

    /// Returns Redis's time plus `microseconds`, in microseconds.
    private static func redisTime(_ fleet: Fleet, plus microseconds: Int64 = 0) async throws -> Int64 {
        let parts = try await fleet.cli("TIME").array?.compactMap(\.integer) ?? []
        return try #require(parts.first) * 1_000_000 + parts[1] + microseconds
    }

    private static func ttlMilliseconds(_ fleet: Fleet, _ key: String) async throws -> Int64 {
        try #require(try await fleet.cli("PTTL", key).integer)
    }

    // MARK: A clock that was set back

    @Test("A fixed window lasts at most one window after the Redis clock was set back")
    func fixed() async throws {
        try await Fleet.run(of: 2, services: [Self.service(Self.limit(5, per: .seconds(40)))]) { fleet in
            let key = "interlock:rate:{catalog}:main"
            _ = try await fleet.sidecars[0].take(service: "catalog", cost: 5)
            try await fleet.cli("PEXPIRE", key, "76000")
            // The other sidecar has no record of the window's end.
            let decision = try await fleet.sidecars[1].take(service: "catalog")
            #expect((1...40_000).contains(decision.retryAfterMilliseconds ?? -1))
            #expect(decision.resetAfterMilliseconds <= 40_000)
            #expect(try await Self.ttlMilliseconds(fleet, key) <= 40_000)
        }
    }

    @Test("A gcra limit refuses for no longer than it takes to refill after the Redis clock was set back")
    func gcra() async throws {
        // The limit fills in 205 ms.
        try await Fleet.run(services: [Self.service(Self.limit(200, per: .seconds(1), .gcra(burst: 40)))]) { fleet in
            let key = "interlock:rate:{catalog}:main~gcra"
            let arrival = try await Self.redisTime(fleet, plus: 1_800_000)
            try await fleet.cli("SET", key, "\(arrival)", "PX", "1800")
            let decision = try await fleet.sidecars[0].take(service: "catalog")
            #expect((1...206).contains(decision.retryAfterMilliseconds ?? -1))
            #expect(decision.resetAfterMilliseconds <= 206)
            #expect(try await fleet.sidecars[0].peek(service: "catalog").retryAfterMilliseconds ?? 0 <= 206)
            #expect(try await Self.ttlMilliseconds(fleet, key) <= 205)
        }
    }

    @Test("A sliding log less than a second ahead lasts at most one window")
    func sliding() async throws {
        try await Fleet.run(services: [Self.service(Self.limit(2, per: .milliseconds(100), .sliding))]) { fleet in
            let key = "interlock:rate:{catalog}:main~sliding"
            let ahead = try await Self.redisTime(fleet, plus: 900_000)
            try await fleet.cli("HSET", key, "head", "1", "tail", "1", "total", "2", "last", "\(ahead)", "1", "\(ahead):2")
            try await fleet.cli("PEXPIRE", key, "1000")
            let decision = try await fleet.sidecars[0].take(service: "catalog")
            #expect((1...100).contains(decision.retryAfterMilliseconds ?? -1))
            #expect(decision.resetAfterMilliseconds <= 100)
            let last = try await fleet.cli("HGET", key, "last").text.flatMap { Int64($0) } ?? 0
            #expect(try await last <= Self.redisTime(fleet))
            #expect(try await Self.ttlMilliseconds(fleet, key) <= 101)
        }
    }

    @Test("A domain's aligned window that lies ahead counts in the present window only")
    func aligned() async throws {
        let settings = DomainTests.settings([DescriptorRule(key: "ip", limit: DomainTests.rate(10, isAligned: true))])
        try await Fleet.run(domains: settings) { fleet in
            let key = "interlock:descriptors:{edge}:ip=x:60s~aligned"
            let now = try await Self.redisTime(fleet) / 1000
            let ahead = now - now % 60_000 + 3_600_000
            try await fleet.cli("SET", key, "\(ahead):10", "PX", "3660000")
            let decision = try #require(try await fleet.sidecars[0].decide("edge", [DomainTests.descriptor("ip")]))
            #expect(decision.isOverLimit)
            let begin = try await fleet.cli("GET", key).text?.split(separator: ":").first.flatMap { Int64($0) } ?? .max
            #expect(try await begin <= Self.redisTime(fleet) / 1000)
            #expect(try await Self.ttlMilliseconds(fleet, key) <= 60_000)
        }
    }

    @Test("CL.THROTTLE refuses for no longer than its rate takes to refill after the Redis clock was set back")
    func throttle() async throws {
        try await Fleet.run { fleet in
            let key = "interlock:throttle:{mail}"
            // The limit fills in four seconds.
            let request = try #require(ThrottleRequest(key: try ResourceName("mail"), maximumBurst: 3, count: 1, period: 1))
            let arrival = try await Self.redisTime(fleet, plus: 7_900_000)
            try await fleet.cli("SET", key, "\(arrival)", "PX", "7900")
            let decision = try await fleet.sidecars[0].throttle(request)
            #expect(decision.isLimited && (1...4).contains(decision.retryAfterSeconds) && decision.resetAfterSeconds <= 4)
            #expect(try await Self.ttlMilliseconds(fleet, key) <= 4000)
        }
    }

    @Test("Parts of a quota that lie ahead count for no longer than a data plane may use them")
    func quota() async throws {
        let settings = DomainTests.settings([DescriptorRule(key: "tenant", limit: DomainTests.rate(10, per: 1))])
        try await Fleet.run(domains: settings) { fleet in
            let key = "interlock:quota:{edge}:tenant=acme:1s"
            let ahead = try await Self.redisTime(fleet) / 1000 + 3_600_000
            try await fleet.cli("HSET", key, "gone/x", "10 \(ahead) 10 \(ahead) 10")
            let sidecar = fleet.sidecars[0]
            let bucket = [DescriptorEntry(key: "tenant", value: "acme")]
            let session = try await sidecar.eventLoop.submit {
                let session = try #require(
                    sidecar.loopBound().beginQuotaSession(
                        domain: "edge", address: "10.0.0.1", isReturning: false
                    ) { _ in })
                session.report([QuotaUsage(bucket: bucket, requestCount: 5)])
                return NIOLoopBound(session, eventLoop: sidecar.eventLoop)
            }.get()
            try await eventually("the data plane is assigned a quota") { try await fleet.cli("HLEN", key).integer == 2 }
            let parts = try await fleet.cli("HGET", key, "gone/x").text?.split(separator: " ").compactMap { Int64($0) } ?? []
            let now = try await Self.redisTime(fleet) / 1000
            #expect(parts.count == 5 && parts[1] <= now + 20_000 && parts[3] <= now + 20_000)
            try await sidecar.eventLoop.submit { session.value.end() }.get()
        }
    }

    // MARK: A changed rule

    /// Takes `cost` under one limit, then checks the answer to one call under another.
    private static func checkChange(
        from before: LimitDefinition, taking cost: Int64, to after: LimitDefinition,
        _ check: (CallDecision) -> Void
    ) async throws {
        try await Fleet.run(services: [service(before)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let decision = try await sidecar.take(service: "catalog", cost: cost)
            #expect(decision.isAllowed)
            try await sidecar.reload(services: [service(after)])
            check(try await sidecar.take(service: "catalog"))
        }
    }

    @Test(
        "A raised limit that was used up grants the next call at its new rate",
        arguments: [
            (limit(60, per: .seconds(3600), .gcra(burst: 59)), limit(3600, per: .seconds(3600), .gcra(burst: 59))),
            (limit(60, per: .seconds(3600), .gcra(burst: 59)), limit(60, per: .seconds(60), .gcra(burst: 59))),
            // Even the smallest raise takes effect.
            (limit(3600, per: .seconds(3600), .gcra(burst: 59)), limit(3601, per: .seconds(3600), .gcra(burst: 59))),
        ])
    func raised(before: LimitDefinition, after: LimitDefinition) async throws {
        try await Self.checkChange(from: before, taking: 60, to: after) { decision in
            #expect((1...1000).contains(decision.retryAfterMilliseconds ?? -1))
            #expect(decision.resetAfterMilliseconds <= 60_000)
        }
    }

    @Test(
        "Consumption is kept exactly when the limit is raised or lowered",
        arguments: [(60, 600), (600, 60), (60, 59), (59, 60)] as [(Int64, Int64)])
    func carriedOver(before: Int64, after: Int64) async throws {
        for algorithm in [LimitAlgorithm.gcra(burst: 49), .sliding, .fixed] {
            let window = Duration.seconds(3600)
            let (former, present) = (Self.limit(before, per: window, algorithm), Self.limit(after, per: window, algorithm))
            try await Self.checkChange(from: former, taking: 30, to: present) { decision in
                #expect(decision.isAllowed && decision.remaining == present.capacity - 31, "\(algorithm)")
            }
        }
    }

    @Test("A larger burst is available immediately, even if the smaller one was used up")
    func largerBurst() async throws {
        let (before, after) = (
            Self.limit(60, per: .seconds(3600), .gcra(burst: 9)), Self.limit(60, per: .seconds(3600), .gcra(burst: 99))
        )
        try await Self.checkChange(from: before, taking: 10, to: after) { decision in
            #expect(decision.isAllowed && decision.remaining == 89)
        }
    }

    @Test("A smaller burst or a shorter window refuses for no longer than a window")
    func smallerBurst() async throws {
        let (before, after) = (
            Self.limit(60, per: .seconds(3600), .gcra(burst: 89)), Self.limit(60, per: .seconds(3600), .gcra(burst: 0))
        )
        try await Self.checkChange(from: before, taking: 90, to: after) {
            #expect((1...3_600_000).contains($0.retryAfterMilliseconds ?? -1))
        }
        for algorithm in [LimitAlgorithm.fixed, .sliding] {
            let (long, short) = (Self.limit(5, per: .seconds(3600), algorithm), Self.limit(5, per: .seconds(2000), algorithm))
            try await Self.checkChange(from: long, taking: 5, to: short) { decision in
                #expect((1...2_000_000).contains(decision.retryAfterMilliseconds ?? -1), "\(algorithm)")
            }
        }
    }

    @Test("A changed rate of CL.THROTTLE applies immediately, and earlier consumption still counts")
    func throttleChanged() async throws {
        try await Fleet.run { fleet in
            func throttle(_ count: Int64, per period: Int64, _ quantity: Int64) async throws -> ThrottleResult {
                try await fleet.sidecars[0].throttle(
                    try #require(
                        ThrottleRequest(
                            key: try ResourceName("mail"), maximumBurst: 9, count: count, period: period, quantity: quantity)))
            }
            #expect(try await throttle(1, per: 60, 10).remaining == 0)
            let decision = try await throttle(1, per: 1, 1)
            #expect(decision.isLimited && decision.retryAfterSeconds == 1 && decision.resetAfterSeconds <= 10)
            #expect(try await throttle(1, per: 3600, 0).resetAfterSeconds > 9 * 3600)
        }
    }

    // MARK: Fresh windows

    @Test(
        "A call refused in a fresh window of a second gets a retry time of at most a second",
        arguments: [.fixed, .sliding, .gcra(burst: 0)] as [LimitAlgorithm])
    func second(algorithm: LimitAlgorithm) async throws {
        try await Fleet.run(services: [Self.service(Self.limit(1, per: .seconds(1), algorithm))]) { fleet in
            let sidecar = fleet.sidecars[0]
            // Both calls run in one script, at the same microsecond.
            async let first = sidecar.take(service: "catalog")
            async let second = sidecar.take(service: "catalog")
            let decisions = try await [first, second].sorted { $0.isAllowed && !$1.isAllowed }
            #expect(decisions.map(\.isAllowed) == [true, false])
            #expect(decisions.allSatisfy { $0.resetAfterMilliseconds <= 1000 }, "\(decisions)")
            #expect(decisions[1].retryAfterMilliseconds ?? .max <= 1000)
            #expect(try await sidecar.peek(service: "catalog").retryAfterMilliseconds ?? 0 <= 1000)
        }
    }
}
