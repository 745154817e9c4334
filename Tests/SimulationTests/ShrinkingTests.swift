import Dispatch
import InterlockJudge
import Simulation
import Testing

@Suite("Stories cut down", .timeLimit(.minutes(10)))
struct ShrinkingTests {
    @Test("what is left of a story still shows the finding, with fewer operations, faults and clients")
    func shrunk() async throws {
        // Redis' clock far ahead, and back: fences fall (L11).
        let whole = await simulated(401, operations: 300)
        #expect(whole.known["L11"] != nil)
        let beginning = try #require(Shrinking(whole, operations: 300, target: "L11"))
        let shrinking = await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                var shrinking = beginning
                shrinking.run { _ in }
                continuation.resume(returning: shrinking)
            }
        }
        #expect(shrinking.result.known["L11"] != nil)
        #expect(shrinking.result.operations < whole.operations)
        #expect(shrinking.result.faults.count <= whole.faults.count)
        #expect(shrinking.story.contains { $0.contains("clock") })
    }
}
