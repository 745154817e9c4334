import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import RedisClient
import Testing

@Suite("Domains of descriptors on a real Redis server")
struct DomainTests {
    static func rate(
        _ count: Int64, per seconds: Int = 60, _ algorithm: LimitAlgorithm = .fixed, isAligned: Bool = false
    ) -> DescriptorLimit {
        .rate(
            LimitDefinition(name: "\(seconds)s", limit: count, window: .seconds(seconds), algorithm: algorithm),
            isAligned: isAligned)
    }

    static func descriptor(_ key: String, _ value: String = "x", cost: Int64 = 1) -> RequestedDescriptor {
        RequestedDescriptor(entries: [DescriptorEntry(key: key, value: value)], cost: cost)
    }

    static func settings(
        _ rules: [DescriptorRule], timeout: Duration = .seconds(2), _ change: (inout RateLimitDomain) -> Void = { _ in }
    ) -> DomainSettings {
        var domain = RateLimitDomain(name: "edge", rules: rules)
        change(&domain)
        var settings = DomainSettings()
        settings.definitions = [domain]
        settings.timeout = timeout
        return settings
    }

    /// Returns whether the request is over its limit, which descriptors are over theirs, and what remains of each.
    private static func decide(_ fleet: Fleet, _ requested: RequestedDescriptor...) async throws -> (
        isOver: Bool, over: [Bool], remaining: [Int64]
    ) {
        let decision = try #require(try await fleet.sidecars[0].decide("edge", requested))
        return (decision.isOverLimit, decision.statuses.map(\.isOverLimit), decision.statuses.map(\.remaining))
    }

    /// Makes a request, and expects these descriptors to be over their limits or these counts to remain.
    private static func expect(
        _ fleet: Fleet, _ requested: RequestedDescriptor..., over: [Bool]? = nil, remaining: [Int64]? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let decision = try #require(try await fleet.sidecars[0].decide("edge", requested), sourceLocation: sourceLocation)
        if let over {
            #expect(decision.statuses.map(\.isOverLimit) == over, sourceLocation: sourceLocation)
            #expect(decision.isOverLimit == over.contains(true), sourceLocation: sourceLocation)
        }
        if let remaining { #expect(decision.statuses.map(\.remaining) == remaining, sourceLocation: sourceLocation) }
    }

    static let algorithms: [DescriptorLimit] = [
        rate(10), rate(10, .sliding), rate(10, .gcra(burst: 9)), rate(10, isAligned: true),
    ]

    @Test("Hundreds of concurrent requests through two sidecars stay exactly within a limit", arguments: algorithms)
    func concurrentRequestsTakeExactlyLimit(limit: DescriptorLimit) async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: limit)])
        try await Fleet.run(of: 2, domains: settings) { fleet in
            let grantedCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for call in 0..<200 {
                    group.addTask {
                        try await fleet.sidecars[call % 2].decide("edge", [Self.descriptor("ip")])?.isOverLimit == false
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            // A new aligned window may begin during the calls.
            #expect(grantedCount == 10 || grantedCount == 20 && limit == Self.rate(10, isAligned: true))
            try await Self.expect(fleet, Self.descriptor("ip", "another"), remaining: [9])
        }
    }

    @Test("With sequential descriptors, each repetition of a descriptor finds less capacity", arguments: [false, true])
    func repeatedDescriptorsFindLessCapacity(countsRefused: Bool) async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: Self.rate(3))]) {
            $0.isIndependent = true
            $0.countsRefused = countsRefused
        }
        try await Fleet.run(domains: settings) { fleet in
            let descriptor = Self.descriptor("ip")
            try await Self.expect(fleet, descriptor, descriptor, descriptor, over: [false, false, false], remaining: [2, 1, 0])
            try await Self.expect(fleet, descriptor, Self.descriptor("ip", "y"), over: [true, false], remaining: [0, 2])
        }
    }

    @Test("A request takes from all its limits or from no limit, and names the one that is exceeded")
    func allOrNone() async throws {
        let rules = [DescriptorRule(key: "wide", limit: Self.rate(100)), DescriptorRule(key: "narrow", limit: Self.rate(2))]
        try await Fleet.run(domains: Self.settings(rules)) { fleet in
            for remaining: Int64 in [1, 0] {
                let decided = try await Self.decide(fleet, Self.descriptor("wide"), Self.descriptor("narrow"))
                #expect(!decided.isOver && decided.remaining == [98 + remaining, remaining])
            }
            for _ in 0..<3 {
                let decided = try await Self.decide(fleet, Self.descriptor("wide"), Self.descriptor("narrow"))
                #expect(decided.isOver && decided.over == [false, true])
            }
            #expect(try await fleet.cli("GET", "interlock:descriptors:{edge}:wide=x:60s").integer == 2)
            #expect(try await fleet.cli("GET", "interlock:descriptors:{edge}:narrow=x:60s").integer == 2)
        }
    }

    @Test("With independent descriptors, a refused one does not keep the others from taking")
    func independentDescriptorsTakeSeparately() async throws {
        let rules = [DescriptorRule(key: "wide", limit: Self.rate(100)), DescriptorRule(key: "narrow", limit: Self.rate(2))]
        try await Fleet.run(domains: Self.settings(rules) { $0.isIndependent = true }) { fleet in
            for _ in 0..<5 { _ = try await Self.decide(fleet, Self.descriptor("wide"), Self.descriptor("narrow")) }
            #expect(try await fleet.cli("GET", "interlock:descriptors:{edge}:wide=x:60s").integer == 5)
            #expect(try await fleet.cli("GET", "interlock:descriptors:{edge}:narrow=x:60s").integer == 2)
            // Two requests for the same counter fit, and the third does not.
            let other = Self.descriptor("narrow", "y")
            try await Self.expect(fleet, other, other, other, over: [false, false, true])
        }
    }

    @Test("Refused hits count where configured, as in the reference: a window that is full stays full")
    func countsRefused() async throws {
        let rules = [DescriptorRule(key: "ip", limit: Self.rate(10, per: 86_400, isAligned: true))]
        let settings = Self.settings(rules) {
            $0.isIndependent = true
            $0.countsRefused = true
        }
        try await Fleet.run(domains: settings) { fleet in
            try await Self.expect(fleet, Self.descriptor("ip", cost: 8), remaining: [2])
            try await Self.expect(fleet, Self.descriptor("ip", cost: 5), over: [true])
            try await Self.expect(fleet, Self.descriptor("ip"), over: [true])
            let value = try await fleet.cli("GET", "interlock:descriptors:{edge}:ip=x:86400s~aligned").text
            #expect(value?.split(separator: ":").last == "14")
        }
    }

    @Test(
        "Refused hits count up to a cap, however large the costs are",
        arguments: [rate(10, per: 86_400), rate(10, per: 86_400, isAligned: true)])
    func countsUpToCap(limit: DescriptorLimit) async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: limit)]) {
            $0.isIndependent = true
            $0.countsRefused = true
        }
        try await Fleet.run(domains: settings) { fleet in
            let key = "interlock:descriptors:{edge}:ip=x:86400s" + (limit == Self.rate(10, per: 86_400) ? "" : "~aligned")
            func setCount(_ count: String) async throws {
                let begun = try await fleet.cli("GET", key).text?.split(separator: ":").dropLast().map { $0 + ":" }.joined()
                _ = try await fleet.cli("SET", key, (begun ?? "") + count, "PX", "86400000")
            }
            try await Self.expect(fleet, Self.descriptor("ip", cost: 8), remaining: [2])
            try await setCount("9007199254740000")
            // Together, the thousand costs exceed any cost that a single descriptor may have.
            let huge = (0..<1000).map { Self.descriptor("ip", cost: 1_000_000_000_000 - Int64($0)) }
            for _ in 0..<3 {
                let decision = try #require(try await fleet.sidecars[0].decide("edge", huge))
                #expect(decision.statuses.allSatisfy { $0.isOverLimit && $0.remaining == 0 })
            }
            #expect(try await fleet.cli("GET", key).text?.split(separator: ":").last == "9007199254740992")
            // Other software may have written a value beyond the cap.
            try await setCount("9223372036854774784")
            let decision = try #require(try await fleet.sidecars[0].decide("edge", huge))
            #expect(decision.isOverLimit)
        }
    }

    @Test("A cost of 0 inspects and does not take, and refunded hits can be taken again", arguments: algorithms)
    func costOfZero(limit: DescriptorLimit) async throws {
        try await Fleet.run(domains: Self.settings([DescriptorRule(key: "ip", limit: limit)])) { fleet in
            try await Self.expect(fleet, Self.descriptor("ip", cost: 7), remaining: [3])
            try await Self.expect(fleet, Self.descriptor("ip", cost: 0), remaining: [3])
            try await Self.expect(fleet, Self.descriptor("ip", cost: 4), over: [true])
            try await Self.expect(fleet, Self.descriptor("ip", cost: -5), remaining: [8])
            try await Self.expect(fleet, Self.descriptor("ip", cost: 4), remaining: [4])
            try await Self.expect(fleet, Self.descriptor("ip", cost: -100), remaining: [10])
            try await Self.expect(fleet, Self.descriptor("ip", cost: 10), remaining: [0])
        }
    }

    @Test("Shadow, unlimited, blocked, unmatched and replaced descriptors are decided by their kind")
    func descriptorsAreDecidedByKind() async throws {
        var shadow = DescriptorRule(key: "shadow", limit: Self.rate(1))
        shadow.isShadow = true
        var special = DescriptorRule(key: "special", limit: Self.rate(5))
        special.replaces = ["general"]
        var general = DescriptorRule(key: "general", limit: Self.rate(1))
        general.name = "general"
        let rules = [
            shadow, special, general, DescriptorRule(key: "free", limit: .unlimited),
            DescriptorRule(key: "never", limit: .blocked(window: .seconds(86_400))),
        ]
        try await Fleet.run(domains: Self.settings(rules)) { fleet in
            for index in 0..<3 {
                let decision = try #require(try await fleet.sidecars[0].decide("edge", [Self.descriptor("shadow")]))
                #expect(!decision.isOverLimit && decision.statuses[0].isShadowRefusal == (index > 0))
            }
            try await Self.expect(fleet, Self.descriptor("free"), Self.descriptor("other"), over: [false, false])
            try await Self.expect(fleet, Self.descriptor("never"), Self.descriptor("general"), over: [true, false])
            for _ in 0..<3 {
                try await Self.expect(fleet, Self.descriptor("general"), Self.descriptor("special"), over: [false, false])
            }
            try await Self.expect(fleet, Self.descriptor("general"), over: [false])
            try await Self.expect(fleet, Self.descriptor("general"), over: [true])
            #expect(try await fleet.sidecars[0].decide("unknown", [Self.descriptor("general")]) == nil)
        }
    }

    @Test("A shadow domain refuses no request and counts those that it would have refused")
    func shadowDomain() async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: Self.rate(1))]) { $0.isShadow = true }
        try await Fleet.run(domains: settings) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<3 {
                let decision = try #require(try await sidecar.decide("edge", [Self.descriptor("ip")]))
                #expect(!decision.isOverLimit)
            }
            let domains = try await sidecar.eventLoop.submit { sidecar.loopBound().allDomains() }.get()
            let decisions = try #require(domains.first?.rules.first?.decisions)
            #expect([decisions.ok, decisions.overLimit, decisions.shadow] == [1, 0, 2])
        }
    }

    @Test("A limit override replaces the rule's limit")
    func overrideReplacesLimit() async throws {
        try await Fleet.run(domains: Self.settings([DescriptorRule(key: "ip", limit: Self.rate(1))])) { fleet in
            var overriding = Self.descriptor("ip")
            overriding.override = .init(limit: 3, window: .seconds(3600), name: "1h")
            for remaining: Int64 in [2, 1, 0] { try await Self.expect(fleet, overriding, remaining: [remaining]) }
            try await Self.expect(fleet, overriding, over: [true])
            try await Self.expect(fleet, Self.descriptor("ip"), remaining: [0])
            var unmatched = Self.descriptor("unruled")
            unmatched.override = .init(limit: 0, window: .seconds(1), name: "1s")
            try await Self.expect(fleet, unmatched, over: [true])
        }
    }

    @Test("No rule replaces a limit override, and an override replaces no other limit")
    func overridesAndReplacing() async throws {
        var general = DescriptorRule(key: "general", limit: Self.rate(100))
        general.name = "general"
        var special = DescriptorRule(key: "special", limit: Self.rate(1000))
        special.replaces = ["general"]
        try await Fleet.run(domains: Self.settings([general, special])) { fleet in
            func overriding(_ key: String) -> RequestedDescriptor {
                var descriptor = Self.descriptor(key)
                descriptor.override = .init(limit: 5, window: .seconds(3600), name: "1h")
                return descriptor
            }
            try await Self.expect(fleet, overriding("general"), Self.descriptor("special"), remaining: [4, 999])
            try await Self.expect(fleet, Self.descriptor("general"), overriding("special"), remaining: [99, 4])
        }
    }

    @Test("Without Redis a domain applies its outage policy immediately", arguments: OutagePolicy.allCases)
    func withoutRedis(policy: OutagePolicy) async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: Self.rate(2))]) { $0.whenRedisIsDown = policy }
        try await Fleet.run(domains: settings) { fleet in
            await fleet.server.kill()
            try await eventually("the sidecar has noticed that Redis is down") { await !fleet.sidecars[0].isReady }
            var over: [Bool] = []
            var cause: RequestDecision.Cause?
            for _ in 0..<3 {
                let decision = try #require(try await fleet.sidecars[0].decide("edge", [Self.descriptor("ip")]))
                over.append(decision.isOverLimit)
                cause = decision.isOverLimit ? decision.cause : nil
            }
            switch policy {
            case .local:
                #expect(over == [false, false, true])
                #expect(cause == .local)
            case .allow: #expect(over == [false, false, false])
            case .deny:
                #expect(over == [true, true, true])
                #expect(cause == .redis)
            }
        }
    }

    @Test("Without Redis, a request that a rule blocks is refused with the rule as the cause")
    func blockedWithoutRedis() async throws {
        let rules = [
            DescriptorRule(key: "ip", limit: Self.rate(2)),
            DescriptorRule(key: "never", limit: .blocked(window: .seconds(86_400))),
        ]
        let settings = Self.settings(rules) {
            $0.isIndependent = true
            $0.whenRedisIsDown = .deny
        }
        try await Fleet.run(domains: settings) { fleet in
            await fleet.server.kill()
            try await eventually("the sidecar has noticed that Redis is down") { await !fleet.sidecars[0].isReady }
            for (requested, cause) in [
                ([Self.descriptor("never"), Self.descriptor("ip")], RequestDecision.Cause.limit),
                ([Self.descriptor("ip")], .redis),
            ] {
                let decision = try #require(try await fleet.sidecars[0].decide("edge", requested))
                #expect(decision.isOverLimit && decision.cause == cause)
            }
        }
    }

    @Test("An unresponsive Redis does not delay an answer beyond the timeout")
    func lateRedisAnswersByTimeout() async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: Self.rate(2))], timeout: .milliseconds(15)) {
            $0.whenRedisIsDown = .deny
        }
        try await Fleet.run(domains: settings) { fleet in
            // A busy machine may take longer than 15 ms to answer.
            try await eventually("the sidecar answers in time") {
                try await !Self.decide(fleet, Self.descriptor("ip", "w")).isOver
            }
            // The pause is shorter than Redis's own timeout of two seconds.
            try await fleet.cli("CLIENT", "PAUSE", "1500", "ALL")
            try await Self.expect(fleet, Self.descriptor("ip"), over: [true])
            try await Self.expect(fleet, Self.descriptor("ip", "y"), over: [true])
            try await eventually(within: .seconds(10), "the sidecar admits requests again") {
                try await !Self.decide(fleet, Self.descriptor("ip", "z")).isOver
            }
        }
    }

    @Test("Rules change while requests are in flight: each is decided and answered by the rules at its arrival")
    func requestsKeepRulesOfTheirArrival() async throws {
        var many = (0..<20).map { DescriptorRule(key: "key-\($0)", limit: Self.rate(1000)) }
        many.append(DescriptorRule(key: "ip", limit: Self.rate(1000)))
        try await Fleet.run(domains: Self.settings(many)) { fleet in
            let few = Self.settings([DescriptorRule(key: "ip", limit: Self.rate(5000))]).definitions
            try await withThrowingTaskGroup(of: Void.self) { group in
                for call in 0..<200 {
                    group.addTask {
                        if call % 50 == 25 { await fleet.sidecars[0].reload(domains: call == 75 ? [] : few) }
                        guard let decision = try await fleet.sidecars[0].decide("edge", [Self.descriptor("ip")]) else { return }
                        let limits = [1000, 5000].map { DescriptorStatus.Bound.limited(limit: $0, window: .seconds(60)) }
                        #expect(limits.contains(decision.statuses[0].bound) && decision.statuses[0].rule?.path == "ip")
                    }
                }
                try await group.waitForAll()
            }
            await fleet.sidecars[0].reload(domains: few)
            let decision = try #require(
                try await fleet.sidecars[0].decide("edge", [Self.descriptor("ip"), Self.descriptor("key-3")]))
            #expect(decision.statuses.map(\.bound) == [.limited(limit: 5000, window: .seconds(60)), .none])
        }
    }

    @Test("Counters beyond a domain's limit are merged into one per rule")
    func mergedCounters() async throws {
        let settings = Self.settings([DescriptorRule(key: "ip", limit: Self.rate(2))]) { $0.maximumCounters = 2 }
        try await Fleet.run(domains: settings) { fleet in
            for value in ["a", "b"] { try await Self.expect(fleet, Self.descriptor("ip", value), remaining: [1]) }
            try await Self.expect(fleet, Self.descriptor("ip", "c"), remaining: [1])
            try await Self.expect(fleet, Self.descriptor("ip", "d"), remaining: [0])
            try await Self.expect(fleet, Self.descriptor("ip", "e"), over: [true])
            try await Self.expect(fleet, Self.descriptor("ip", "a"), remaining: [0])
        }
    }
}
