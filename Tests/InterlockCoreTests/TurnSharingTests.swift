import InterlockCore
import Testing

@Suite("Sidecars that wait for the same limit share it")
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

    @Test("over some windows each gets about the same", arguments: cases)
    func fair(definition: LimitDefinition, sidecars: Int) {
        let shares = fleet(definition, sidecars).shares
        let even = Double(shares.reduce(0, +)) / Double(sidecars)
        // Who is first has the whole burst; few grants cannot be divided more evenly than by two.
        let tolerance = max(0.35 * even, 2) + Double(definition.capacity == 5 ? 4 : 0)
        for share in shares { #expect(abs(Double(share) - even) <= tolerance, "\(shares)") }
    }

    @Test("little of the limit is left unused for it", arguments: cases)
    func whole(definition: LimitDefinition, sidecars: Int) {
        let total = fleet(definition, sidecars).shares.reduce(0, +)
        #expect(Double(total) >= 0.95 * Double(definition.limit * Self.windows))
    }

    @Test("within a sidecar they are served in the order in which they came", arguments: cases)
    func inOrder(definition: LimitDefinition, sidecars: Int) {
        for served in fleet(definition, sidecars).served { #expect(served == served.sorted()) }
    }
}
