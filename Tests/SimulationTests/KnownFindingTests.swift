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
        // STORIES
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
