import Dispatch
import InterlockJudge
import Simulation
import Testing

@Suite("Stories cut down", .timeLimit(.minutes(10)))
struct ShrinkingTests {
    @Test("what is left of a story still shows the finding, with fewer operations, faults and clients")
    func shrunk() async throws {
        // Redis restarts before a sidecar has heard of the others.
        let whole = await simulated(10_817, operations: 1000)
        #expect(whole.known["fleet_size"] != nil)
        let beginning = try #require(Shrinking(whole, operations: 1000, target: "fleet_size"))
        let shrinking = await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                var shrinking = beginning
                shrinking.run { _ in }
                continuation.resume(returning: shrinking)
            }
        }
        #expect(shrinking.result.known["fleet_size"] != nil)
        #expect(shrinking.result.operations < whole.operations)
        #expect(shrinking.result.faults.count <= whole.faults.count)
        #expect(shrinking.story.contains { $0.contains("redis-restart") })
    }
}
