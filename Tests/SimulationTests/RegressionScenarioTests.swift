import Simulation
import Testing

/// Faults that the simulation found, each in the story that first showed it, as printed by
/// `make simulate ARGS='--seed N --shrink'`. A change to the product may change the story of a seed, so other tests in
/// this directory show each fault directly.
@Suite("Regressions: stories that the simulation found", .serialized, .timeLimit(.minutes(10)))
struct RegressionScenarioTests {
    struct Story: Sendable, CustomTestStringConvertible {
        var finding: String
        var seed: UInt64
        var faults: Set<Int>
        var clients: Set<Int>
        /// The time at which all faults end, in milliseconds.
        var milliseconds: Int64

        var testDescription: String { "\(finding), seed \(seed)" }
    }

    static let stories: [Story] = [
        Story(
            finding: "L1", seed: 2591, faults: [2, 3, 7, 9, 11, 15, 19, 20, 21],
            clients: [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 96], milliseconds: 42574),
        Story(finding: "L2", seed: 2218, faults: [], clients: [30], milliseconds: 36254),
        Story(
            finding: "L3", seed: 3075, faults: [1],
            clients: [45, 48, 57, 60, 72, 75, 78, 81, 84, 87, 90, 93, 96, 99, 102, 105, 108, 111, 114, 126, 129, 132],
            milliseconds: 14944),
        Story(finding: "L5", seed: 775, faults: [], clients: [21, 24, 27, 30, 42], milliseconds: 7194),
        Story(finding: "L9", seed: 75, faults: [9], clients: [18, 21, 24, 27], milliseconds: 8200),
        Story(finding: "L11", seed: 401, faults: [7], clients: [36, 39, 45], milliseconds: 14071),
        Story(finding: "R1", seed: 204, faults: [7, 13], clients: [12], milliseconds: 103404),
        Story(finding: "R2", seed: 95, faults: [4], clients: [54, 57], milliseconds: 45706),
        Story(finding: "R4", seed: 514, faults: [], clients: [21, 27, 33, 36, 39, 42, 45, 48, 54, 57, 63], milliseconds: 340),
        Story(finding: "R6", seed: 155, faults: [], clients: [18, 21, 24, 39, 42, 45, 48, 54, 60], milliseconds: 8749),
        Story(finding: "R7", seed: 935, faults: [2, 7, 15, 18], clients: [0, 3, 9, 90, 93, 99], milliseconds: 30723),
        Story(
            finding: "R10", seed: 1699, faults: [17, 18, 19, 21, 23, 24, 26, 27, 35, 37, 42],
            clients: [0, 6, 12, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 66, 69], milliseconds: 60119),
        Story(
            finding: "R12", seed: 19, faults: [16, 17, 22, 23],
            clients: [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66], milliseconds: 36387
        ),
        Story(finding: "N1", seed: 810, faults: [], clients: [54, 57, 60, 63], milliseconds: 42171),
        Story(finding: "N2", seed: 845, faults: [10, 12, 13, 20, 28], clients: [51, 57], milliseconds: 51475),
        Story(finding: "N4", seed: 164, faults: [], clients: [0, 3, 15, 39, 45], milliseconds: 17609),
        Story(finding: "N5", seed: 1898, faults: [], clients: [0, 3, 6, 9, 12, 15, 18], milliseconds: 29958),
        Story(finding: "N6", seed: 364, faults: [], clients: [78, 93], milliseconds: 32607),
    ]

    @Test("A story that once showed a fault shows no finding", arguments: stories)
    func staysFixed(story: Story) async {
        let result = await simulated(
            story.seed, operations: 10_000,
            subset: WorldSubset(faults: story.faults, clients: story.clients, milliseconds: story.milliseconds, isPlain: true))
        #expect(result.unknownFindings.isEmpty, "\(result.unknownFindings.prefix(3))")
    }
}
