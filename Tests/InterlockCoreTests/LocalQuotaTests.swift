import InterlockCore
import Testing

@Suite("A sidecar's local quota while Redis is unreachable")
struct LocalQuotaTests {
    private let start = Instant(nanoseconds: 0)

    private func perSecond(_ limit: Int64, _ algorithm: LimitAlgorithm = .fixed) -> LimitDefinition {
        LimitDefinition(name: "1s", limit: limit, window: .seconds(1), algorithm: algorithm)
    }

    @Test("The local quota is the limit divided by the number of sidecars", arguments: [(10, 1, 10), (10, 3, 3), (10, 10, 1)])
    func localQuotaIsLimitDividedByNumberOfSidecars(limit: Int64, sidecars: Int, expected: Int64) {
        let quota = LocalQuota(of: perSecond(limit), sidecars: sidecars)
        #expect(quota.capacity == expected)
        #expect(quota.periodMilliseconds == 1000)
    }

    @Test("A quota of less than one call per window is spread over as many windows as it takes")
    func spread() {
        let quota = LocalQuota(of: perSecond(2), sidecars: 5)
        #expect(quota.capacity == 1)
        #expect(quota.periodMilliseconds == 2500)
    }

    @Test("A window starts with its first call and has the configured length")
    func windowStartsWithFirstCall() {
        var quota = LocalQuota(of: perSecond(2), sidecars: 1)
        #expect(quota.taken(now: start) == 0)
        quota.take(2, now: start)
        #expect(quota.taken(now: start.advanced(byMilliseconds: 999)) == 2)
        #expect(quota.resetAfterMilliseconds(now: start.advanced(byMilliseconds: 999)) == 1)
        #expect(quota.taken(now: start.advanced(byMilliseconds: 1000)) == 0)
    }

    @Test("For any fleet the local quotas together never exceed the limit in a window")
    func fleetWide() {
        for limit in Int64(1)...40 {
            for sidecars in 1...40 {
                let quota = LocalQuota(of: perSecond(limit), sidecars: sidecars)
                let perWindow = Double(quota.capacity) * 1000 / Double(quota.periodMilliseconds) * Double(sidecars)
                #expect(perWindow <= Double(limit) + 0.001, "limit \(limit), \(sidecars) sidecars")
            }
        }
    }
}

@Suite("Sidecars that wait for the same limit")
struct CapacitySplitTests {
    private static let windows: Int64 = 20

    private static func definition(_ algorithm: LimitAlgorithm, _ limit: Int64) -> LimitDefinition {
        LimitDefinition(name: "1s", limit: limit, window: .seconds(1), algorithm: algorithm)
    }

    private static let cases: [(LimitDefinition, Int)] =
        [2, 5].flatMap { sidecars in
            [1, 10].flatMap { limit in
                [.fixed, .sliding, .gcra(burst: 0), .gcra(burst: 4)].map { (definition($0, limit), sidecars) }
            }
        }

    private func fleet(_ definition: LimitDefinition, _ sidecars: Int) -> FleetOfLimiters {
        var fleet = FleetOfLimiters(of: sidecars, definition, waiting: 12, seed: 11)
        fleet.run(forMilliseconds: Self.windows * 1000)
        return fleet
    }

    @Test("Over a few windows each sidecar gets about the same number of grants", arguments: cases)
    func fair(definition: LimitDefinition, sidecars: Int) {
        let grantCounts = fleet(definition, sidecars).grantCounts
        let even = Double(grantCounts.reduce(0, +)) / Double(sidecars)
        // The first sidecar gets the whole burst. Few grants can differ by two.
        let tolerance = max(0.35 * even, 2) + Double(definition.capacity == 5 ? 4 : 0)
        for count in grantCounts { #expect(abs(Double(count) - even) <= tolerance, "\(grantCounts)") }
    }

    @Test("Waiting sidecars leave little of the limit unused", arguments: cases)
    func waitingSidecarsLeaveLittleOfLimitUnused(definition: LimitDefinition, sidecars: Int) {
        let total = fleet(definition, sidecars).grantCounts.reduce(0, +)
        #expect(Double(total) >= 0.95 * Double(definition.limit * Self.windows))
    }

    @Test("Within a sidecar calls are served in the order of arrival", arguments: cases)
    func inOrder(definition: LimitDefinition, sidecars: Int) {
        for served in fleet(definition, sidecars).served { #expect(served == served.sorted()) }
    }
}

@Suite("Subjects with counters of their own")
struct SubjectRegistryTests {
    @Test(
        "A subject named like the overflow counter is counted separately from it",
        arguments: [
            ("~crowd", "~~crowd"), ("~~crowd", "~~~crowd"), ("tenant-7", "tenant-7"), ("~other", "~other"),
            ("x~crowd", "x~crowd"), ("~x~crowd", "~x~crowd"), ("~", "~"),
        ])
    func namedLikeOverflow(subject: String, counted: String) {
        #expect(SubjectRegistry.counterName(for: subject) == counted)
    }

    private static let start = Instant(nanoseconds: 1_000_000)

    /// Returns the names that get a counter.
    private static func register(
        _ names: [String], in registry: inout SubjectRegistry, atMilliseconds time: Int64 = 0
    ) -> [String] {
        names.filter { registry.register($0, windowMilliseconds: 1000, now: start.advanced(byMilliseconds: time)) }
    }

    @Test("At most the allowed number of subjects have counters, and known subjects keep theirs")
    func capacity() {
        var registry = SubjectRegistry(capacity: 3)
        let knownSubjects = ["a", "b", "c"]
        for _ in 0..<2 {
            let taken = Self.register(knownSubjects + ["d", "e"], in: &registry)
            #expect(taken == knownSubjects)
        }
        #expect(knownSubjects.allSatisfy(registry.hasCapacity))
        #expect(!registry.hasCapacity(for: "d"))
        #expect(registry.count == 3)
    }

    @Test("Subjects not seen for two windows are no longer counted even without new calls")
    func forgotten() {
        var registry = SubjectRegistry(capacity: 3)
        _ = Self.register(["a", "b"], in: &registry)
        let counts = [500, 1500, 2500].map {
            registry.count(windowMilliseconds: 1000, now: Self.start.advanced(byMilliseconds: $0))
        }
        #expect(counts == [2, 2, 0])
    }

    @Test("A subject not seen for two windows loses its counter, and one that was seen keeps it")
    func unseenSubjectLosesCounter() {
        var registry = SubjectRegistry(capacity: 2)
        for (names, time, expected) in [
            (["a", "b"], 0, ["a", "b"]), (["a"], 1500, ["a"]), (["c"], 2400, []), (["a", "c"], 2600, ["a", "c"]),
            // All counters are dropped because no subject was seen.
            (["d", "e", "f"], 60_000, ["d", "e"]),
        ] as [([String], Int64, [String])] {
            let taken = Self.register(names, in: &registry, atMilliseconds: time)
            #expect(taken == expected)
        }
    }
}
