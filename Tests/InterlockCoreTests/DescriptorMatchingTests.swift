import InterlockCore
import Testing

@Suite("Matching of descriptors to rules and counters")
struct DescriptorMatchingTests {
    private static func limit(_ count: Int64) -> DescriptorLimit {
        .rate(LimitDefinition(name: "1m", limit: count, window: .seconds(60)), isAligned: false)
    }

    private static func entries(_ text: String) -> [DescriptorEntry] {
        text.split(separator: ",").map { part in
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return DescriptorEntry(key: String(sides[0]), value: sides.count > 1 ? String(sides[1]) : "")
        }
    }

    /// Returns the path of the rule that a descriptor matches.
    private static func path(_ text: String, in rules: [DescriptorRule]) -> String? {
        let index = DescriptorIndex(rules)
        return index.match(entries(text))?.rule.path
    }

    private static let rules: [DescriptorRule] = [
        DescriptorRule(key: "ip", limit: limit(10)),
        DescriptorRule(key: "ip", value: DescriptorPattern("50.0.0.5"), limit: .blocked(window: .seconds(86_400))),
        DescriptorRule(key: "path", value: DescriptorPattern("/api/*/action"), limit: limit(1)),
        DescriptorRule(key: "path", value: DescriptorPattern("/api/*"), limit: limit(2)),
        DescriptorRule(
            key: "type", value: DescriptorPattern("marketing"), rules: [DescriptorRule(key: "to", limit: limit(5))]),
        DescriptorRule(key: "ldap", limit: .unlimited),
    ]

    @Test(
        "An exact value wins over patterns, patterns are tried in order, and the wildcard comes last",
        arguments: [
            ("ip=50.0.0.1", "ip"), ("ip=50.0.0.5", "ip=50.0.0.5"), ("path=/api/1/action", "path=/api/*/action"),
            ("path=/api/1/other", "path=/api/*"), ("path=/api/1/action/2", "path=/api/*"), ("path=/other", nil),
            ("type=marketing,to=1", "type=marketing,to"), ("type=marketing", nil), ("type=other,to=1", nil),
            ("ip=1,to=2", nil), ("ldap=x", "ldap"), ("other=x", nil), ("", nil),
        ] as [(String, String?)])
    func exactValueWinsOverPatterns(text: String, expected: String?) {
        #expect(Self.path(text, in: Self.rules) == expected)
    }

    @Test(
        "Each star matches any number of characters",
        arguments: [
            ("*", "", true), ("*", "x", true), ("a*", "a", true), ("a*", "ba", false), ("*a", "ba", true), ("*a", "ab", false),
            ("a*a", "a", false), ("a*a", "aa", true), ("a*b*c", "a-b-c", true), ("a*b*c", "a-c-b", false),
            ("a*b*c", "abbc", true), ("a**c", "ac", true), ("a*bc*c", "abc", false), ("é*", "éa", true),
            ("/api/*/resource/*/action", "/api/v1/resource/123/action", true),
        ])
    func eachStarMatchesAnyNumberOfCharacters(pattern: String, value: String, isMatch: Bool) {
        #expect(DescriptorPattern(pattern).matches(value) == isMatch)
    }

    @Test("No two descriptors have the same counter name, whatever their values, and long names end in a digest")
    func counters() {
        let index = DescriptorIndex([
            DescriptorRule(key: "a", limit: Self.limit(1), rules: [DescriptorRule(key: "b", limit: Self.limit(1))])
        ])
        func counter(_ entries: (String, String)...) -> String? {
            index.match(entries.map { DescriptorEntry(key: $0.0, value: $0.1) })?.counter
        }
        #expect(counter(("a", "1"), ("b", "2")) == "a=1,b=2")
        #expect(counter(("a", "1,b=2")) == "a=1%2Cb=2")
        #expect(counter(("a", "2001:db8::1")) == "a=2001:db8::1")
        #expect(counter(("a", "x y\n")) == "a=x%20y%0A")
        #expect(counter(("a", "100%")) == "a=100%25")
        let long = String(repeating: "x", count: 1000)
        let names = [counter(("a", long)), counter(("a", long + "y")), counter(("a", ""))].compactMap(\.self)
        #expect(Set(names).count == 3)
        #expect(names.allSatisfy { $0.utf8.count <= CounterName.maximumBytes })
    }

    @Test("Values that share a pattern's count have one counter, and other values have one each")
    func valuesOfSharedPatternHaveOneCounter() {
        func counters(isShared: Bool) -> Set<String> {
            var rule = DescriptorRule(key: "file", value: DescriptorPattern("files/*"), limit: Self.limit(1))
            rule.isShared = isShared
            let index = DescriptorIndex([rule])
            return Set(["files/a", "files/b"].compactMap { index.match([DescriptorEntry(key: "file", value: $0)])?.counter })
        }
        #expect(counters(isShared: true) == ["file=files/*"])
        #expect(counters(isShared: false) == ["file=files/a", "file=files/b"])
    }

    @Test(
        "The order of a bucket's entries does not matter",
        arguments: [
            ("to=1,type=marketing", "type=marketing,to"), ("type=marketing,to=1", "type=marketing,to"), ("to=1", nil),
            ("ip=1", "ip"),
            ("ip=1,to=2", nil), ("", nil),
        ] as [(String, String?)])
    func orderOfBucketEntriesDoesNotMatter(bucket: String, path: String?) {
        #expect(DescriptorIndex(Self.rules).match(unordered: Self.entries(bucket))?.rule.path == path)
    }

    @Test(
        "If a bucket's entries can be ordered in several ways, one that leads to a rule is found",
        arguments: [
            ("plan=free,tenant=acme", "tenant,plan"), ("plan=free", "plan"),
            ("plan=free,region=eu,tenant=acme", "tenant,region,plan"),
            ("plan=free,region=eu", nil),
        ] as [(String, String?)])
    func backtracking(bucket: String, path: String?) {
        let plan = DescriptorRule(key: "plan", limit: Self.limit(10))
        let index = DescriptorIndex([
            DescriptorRule(key: "plan", limit: Self.limit(1000)),
            DescriptorRule(
                key: "region",
                rules: [
                    DescriptorRule(key: "plan", rules: [DescriptorRule(key: "other", limit: .blocked(window: .seconds(86_400)))])
                ]),
            DescriptorRule(key: "tenant", rules: [plan, DescriptorRule(key: "region", rules: [plan])]),
        ])
        #expect(index.match(unordered: Self.entries(bucket))?.rule.path == path)
    }

    @Test("Values that look alike but differ in bytes are counted separately")
    func similarValues() {
        var limiter = DomainLimiter(
            domain: RateLimitDomain(name: "edge", rules: [DescriptorRule(key: "user", limit: Self.limit(1))]))
        let names = ["caf\u{E9}", "cafe\u{301}"].map { DescriptorEntry(key: "user", value: $0) }
        #expect(names[0] != names[1])
        for (id, name) in names.enumerated() {
            _ = limiter.admit([RequestedDescriptor(entries: [name])], id: id, now: Instant(nanoseconds: 1))
        }
        let batch = limiter.nextBatch()
        #expect(batch?.limits.counters.count == 2)
    }

    @Test("A count near the largest integer leaves nothing remaining")
    func hugeCount() throws {
        var domain = RateLimitDomain(name: "edge", rules: [DescriptorRule(key: "user", limit: Self.limit(1))])
        domain.isIndependent = true
        domain.countsRefused = true
        var limiter = DomainLimiter(domain: domain)
        let now = Instant(nanoseconds: 1)
        _ = limiter.admit([RequestedDescriptor(entries: [DescriptorEntry(key: "user", value: "a")], cost: 1000)], id: 0, now: now)
        let next = limiter.nextBatch()
        let batch = try #require(next)
        let verdict = BatchVerdict(
            timeMicroseconds: 1, counters: [.init(count: .max - 10, capacity: 1, resetAfterMilliseconds: 60_000)],
            fits: [.init(count: 0)])
        var resolutions: [DomainLimiter.RequestResolution] = []
        limiter.apply(verdict, of: batch, sentAt: now, now: now, into: &resolutions)
        #expect(resolutions.map(\.decision.isOverLimit) == [true])
        #expect(resolutions.map { $0.decision.statuses.map(\.remaining) } == [[0]])
    }

    @Test("A counter occupies capacity until it lapses, and each limit override has its own counter")
    func counterCapacity() {
        func counters(_ rule: DescriptorRule, _ requested: [RequestedDescriptor]) -> [String] {
            var domain = RateLimitDomain(name: "edge", rules: [rule])
            domain.maximumCounters = 1
            var limiter = DomainLimiter(domain: domain)
            for (index, ask) in requested.enumerated() {
                // The requests are a minute apart.
                _ = limiter.admit([ask], id: index, now: Instant(nanoseconds: Int64(index) * 60_000_000_000))
            }
            return limiter.nextBatch()?.limits.counters.compactMap(\.name) ?? []
        }
        let slow = LimitDefinition(name: "1s", limit: 1, window: .seconds(1), algorithm: .gcra(burst: 1000))
        let requested = ["1", "2"].map { RequestedDescriptor(entries: [DescriptorEntry(key: "ip", value: $0)], cost: 1000) }
        #expect(counters(DescriptorRule(key: "ip", limit: .rate(slow, isAligned: false)), requested) == ["ip=1", "~crowd.ip"])
        var overrides = requested
        for index in overrides.indices {
            overrides[index].entries = requested[0].entries
            overrides[index].override = .init(limit: Int64(index + 1), window: .seconds(3600), name: "\(index + 1)")
        }
        #expect(counters(DescriptorRule(key: "ip", limit: Self.limit(1)), overrides) == ["ip=1", "~crowd.ip"])
    }

    @Test("A quota is whole tokens in whole seconds, and a portion of it holds a part of the capacity")
    func quotaRates() {
        func rate(_ limit: Int64, _ milliseconds: Int64, _ algorithm: LimitAlgorithm = .fixed) -> QuotaRate {
            QuotaRate(LimitDefinition(name: "a", limit: limit, window: .milliseconds(milliseconds), algorithm: algorithm))
        }
        #expect((rate(10, 1000).tokens, rate(10, 1000).seconds) == (10, 1))
        #expect((rate(5, 100).tokens, rate(5, 100).seconds) == (50, 1))
        #expect((rate(3, 1500).tokens, rate(3, 1500).seconds) == (4, 2))
        #expect(rate(10, 10_000).capacity(ofPortion: 3) == 3)
        #expect(rate(10, 10_000, .gcra(burst: 4)).capacity(ofPortion: 4) == 2)
        #expect(rate(10, 10_000, .gcra(burst: 0)).capacity(ofPortion: 4) == 1)
        // The capacity is at most the number of tokens that accrue while a quota lasts.
        #expect(rate(1000, 3_600_000).capacity(ofPortion: 1000) == 4)
        #expect(rate(1000, 3_600_000).capacity(ofPortion: 1) == 1)
        // Envoy counts in 32 bits.
        #expect(rate(3_600_000_000, 30 * 86_400_000).tokens == 3_600_000_000)
        #expect(rate(1_000_000_000_000_000, 999).tokens == Int64(UInt32.max))
    }

    @Test("A data plane needs twice what it reports, at most the whole limit, and half as much after an idle report")
    func quotaNeeds() {
        let rate = QuotaRate(LimitDefinition(name: "a", limit: 100, window: .seconds(1)))
        var demand = QuotaDemand()
        demand.report(requests: 1, overMilliseconds: 0, of: rate)
        #expect(demand.tokens(of: rate) == 100)
        demand.report(requests: 50, overMilliseconds: 5000, of: rate)
        #expect(demand.tokens(of: rate) == 20)
        demand.report(requests: 0, overMilliseconds: 5000, of: rate)
        #expect(demand.tokens(of: rate) == 10)
        demand.report(requests: .max, overMilliseconds: 1, of: rate)
        #expect(demand.tokens(of: rate) == 100)
        let daily = QuotaRate(LimitDefinition(name: "1d", limit: 100, window: .seconds(86_400)))
        demand.report(requests: 106_751_991_167, overMilliseconds: 25_975_808, of: daily)
        #expect(demand.tokens(of: daily) == 100)
    }
}
