import InterlockCore
import Testing

@Suite("A sidecar's own share while Redis is away")
struct LocalShareTests {
    private let start = Instant(nanoseconds: 0)

    private func perSecond(_ limit: Int64, _ algorithm: LimitAlgorithm = .fixed) -> LimitDefinition {
        LimitDefinition(name: "1s", limit: limit, window: .seconds(1), algorithm: algorithm)
    }

    @Test("the share is the limit divided by the sidecars", arguments: [(10, 1, 10), (10, 3, 3), (10, 10, 1)])
    func share(limit: Int64, sidecars: Int, expected: Int64) {
        let share = LocalQuota(of: perSecond(limit), sidecars: sidecars)
        #expect(share.capacity == expected)
        #expect(share.period == 1000)
    }

    @Test("less than one call a window is spread over as many windows as it takes")
    func spread() {
        let share = LocalQuota(of: perSecond(2), sidecars: 5)
        #expect(share.capacity == 1)
        #expect(share.period == 2500)
    }

    @Test("a period begins with its first call and ends a window later")
    func period() {
        var share = LocalQuota(of: perSecond(2), sidecars: 1)
        #expect(share.taken(now: start) == 0)
        share.take(2, now: start)
        #expect(share.taken(now: start.advanced(byMilliseconds: 999)) == 2)
        #expect(share.resetAfter(now: start.advanced(byMilliseconds: 999)) == 1)
        #expect(share.taken(now: start.advanced(byMilliseconds: 1000)) == 0)
    }

    @Test("for any fleet the shares together never exceed the limit in a window")
    func fleetWide() {
        for limit in Int64(1)...40 {
            for sidecars in 1...40 {
                let share = LocalQuota(of: perSecond(limit), sidecars: sidecars)
                let perWindow = Double(share.capacity) * 1000 / Double(share.period) * Double(sidecars)
                #expect(perWindow <= Double(limit) + 0.001, "limit \(limit), \(sidecars) sidecars")
            }
        }
    }
}

@Suite("Sidecars that wait for the same limit")
struct TurnSharingTests {
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

    @Test("over a few windows each sidecar gets about the same", arguments: cases)
    func fair(definition: LimitDefinition, sidecars: Int) {
        let shares = fleet(definition, sidecars).shares
        let even = Double(shares.reduce(0, +)) / Double(sidecars)
        // The first sidecar gets the whole burst. Few grants can differ by two.
        let tolerance = max(0.35 * even, 2) + Double(definition.capacity == 5 ? 4 : 0)
        for share in shares { #expect(abs(Double(share) - even) <= tolerance, "\(shares)") }
    }

    @Test("waiting sidecars leave little of the limit unused", arguments: cases)
    func whole(definition: LimitDefinition, sidecars: Int) {
        let total = fleet(definition, sidecars).shares.reduce(0, +)
        #expect(Double(total) >= 0.95 * Double(definition.limit * Self.windows))
    }

    @Test("within a sidecar calls are served in the order of arrival", arguments: cases)
    func inOrder(definition: LimitDefinition, sidecars: Int) {
        for served in fleet(definition, sidecars).served { #expect(served == served.sorted()) }
    }
}

@Suite("Subjects with their own counters")
struct SubjectBookTests {
    @Test(
        "a subject that has the name of the crowd is counted separately from it",
        arguments: [
            ("~crowd", "~~crowd"), ("~~crowd", "~~~crowd"), ("tenant-7", "tenant-7"), ("~other", "~other"),
            ("x~crowd", "x~crowd"), ("~x~crowd", "~x~crowd"), ("~", "~"),
        ])
    func namedAsTheCrowd(subject: String, counted: String) {
        #expect(SubjectBook.counted(subject) == counted)
    }

    private static let start = Instant(nanoseconds: 1_000_000)

    /// Returns the names that get a counter.
    private static func takenIn(_ names: [String], to book: inout SubjectBook, atMilliseconds time: Int64 = 0) -> [String] {
        names.filter { book.takeIn($0, windowMilliseconds: 1000, now: start.advanced(byMilliseconds: time)) }
    }

    @Test("at most the allowed number of subjects have counters, and known subjects keep theirs")
    func capacity() {
        var book = SubjectBook(capacity: 3)
        let known = ["a", "b", "c"]
        for _ in 0..<2 {
            let taken = Self.takenIn(known + ["d", "e"], to: &book)
            #expect(taken == known)
        }
        #expect(known.allSatisfy(book.hasRoom))
        #expect(!book.hasRoom(for: "d"))
        #expect(book.count == 3)
    }

    @Test("subjects not seen for two windows are no longer counted, even without new calls")
    func forgotten() {
        var book = SubjectBook(capacity: 3)
        _ = Self.takenIn(["a", "b"], to: &book)
        let counts = [500, 1500, 2500].map {
            book.count(windowMilliseconds: 1000, now: Self.start.advanced(byMilliseconds: $0))
        }
        #expect(counts == [2, 2, 0])
    }

    @Test("a subject that was not seen for two windows loses its place, and one that was seen keeps it")
    func slots() {
        var book = SubjectBook(capacity: 2)
        for (names, time, expected) in [
            (["a", "b"], 0, ["a", "b"]), (["a"], 1500, ["a"]), (["c"], 2400, []), (["a", "c"], 2600, ["a", "c"]),
            // All are dropped, because none of them was seen.
            (["d", "e", "f"], 60_000, ["d", "e"]),
        ] as [([String], Int64, [String])] {
            let taken = Self.takenIn(names, to: &book, atMilliseconds: time)
            #expect(taken == expected)
        }
    }
}
