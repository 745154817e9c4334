import Simulation
import Testing

/// What the simulation has found and is not repaired yet, each in the shortest story that shows it: `make simulate ARGS='--seed N --shrink
/// --finding NAME'` told it. When one is repaired its known issue no longer comes about: then it becomes a plain test.
@Suite("Known findings", .serialized, .timeLimit(.minutes(10)))
struct KnownFindingTests {
    struct Story: Sendable, CustomTestStringConvertible {
        var finding: String
        var seed: UInt64
        var faults: Set<Int>
        var clients: Set<Int>
        /// When everything is made whole.
        var milliseconds: Int64

        var testDescription: String { "\(finding), seed \(seed)" }
    }

    static let stories: [Story] = [
        Story(finding: "L1", seed: 318, faults: [2, 3, 10, 11], clients: [9, 12, 15, 18, 21, 24], milliseconds: 18578),
        Story(finding: "L2", seed: 668, faults: [1, 2, 4], clients: [0, 3, 6, 18, 21, 24, 27, 30, 33, 36], milliseconds: 36407),
        Story(finding: "L5", seed: 236, faults: [], clients: [0, 6, 9], milliseconds: 7473),
        Story(
            finding: "L9", seed: 7, faults: [2], clients: [108, 111, 114, 117, 120, 123, 126, 132, 138, 180], milliseconds: 16209),
        Story(finding: "L11", seed: 1035, faults: [1], clients: [3, 6], milliseconds: 3146),
        Story(finding: "R2", seed: 1047, faults: [6], clients: [51, 54], milliseconds: 16125),
        Story(finding: "R4", seed: 174, faults: [1], clients: [27, 30, 33, 54], milliseconds: 10135),
        Story(
            finding: "R7", seed: 104, faults: [1, 5, 6, 7, 10, 14, 17],
            clients: [
                3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 66, 69, 72, 75, 78, 81, 84, 87, 99,
            ], milliseconds: 25629),
        Story(finding: "R10", seed: 17, faults: [4, 10], clients: [54, 57, 60], milliseconds: 13128),
        Story(
            finding: "R12", seed: 223, faults: [56, 67, 70, 71], clients: [30, 39, 42, 45, 51, 57, 60, 63, 66, 69],
            milliseconds: 112211),
        Story(
            finding: "N1", seed: 1090, faults: [], clients: [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 72], milliseconds: 65887),
        Story(finding: "N4", seed: 30, faults: [], clients: [0, 3, 6, 9, 12, 15, 30, 33, 36], milliseconds: 31446),
    ]

    @Test("what is known to be wrong shows in its shortest story", arguments: stories)
    func shown(story: Story) async {
        let result = await simulated(
            story.seed, operations: 10_000,
            cut: Cut(faults: story.faults, clients: story.clients, milliseconds: story.milliseconds))
        let summary = KnownFinding.all.first { $0.name == story.finding }?.summary ?? ""
        withKnownIssue("\(story.finding): \(summary)") {
            #expect(result.known[story.finding] == nil)
        }
        #expect(result.unknown.isEmpty, "\(result.unknown.prefix(3))")
    }
}
