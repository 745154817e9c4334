import Dispatch
import InterlockJudge
import Simulation
import Testing

@Suite("Simulated worlds", .serialized, .timeLimit(.minutes(10)))
struct WorldTests {
    @Test(
        "a seed decides everything: two worlds of it have the same history, and another seed another one", arguments: [3, 8, 21])
    func decided(seed: UInt64) async {
        let first = await simulated(seed, operations: 800)
        let second = await simulated(seed, operations: 800)
        #expect(first.digest == second.digest)
        #expect(first.operations == second.operations)
        #expect(await simulated(seed + 1, operations: 800).digest != first.digest)
    }

    @Test("a fault that is left out does not happen, in the same world")
    func omitted() async throws {
        let whole = await simulated(1, operations: 1500)
        let left = try #require(whole.faults.first?.number)
        let rest = await simulated(1, operations: 1500, omitting: [left])
        #expect(!rest.faults.contains { $0.number == left })
        #expect(rest.profile == whole.profile)
    }

    @Test("ordinary worlds show nothing that is not known", arguments: 1...12)
    func ordinary(seed: Int) async {
        let result = await simulated(UInt64(seed), operations: 1200)
        #expect(result.unknown.isEmpty, "seed \(seed): \(result.unknown.prefix(3)); \(result.faults)")
        #expect(result.operations >= 1200)
    }
}

/// Runs a world on a thread of its own: it does not give way to other tests.
func simulated(_ seed: UInt64, operations: Int, omitting: Set<Int> = []) async -> WorldResult {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().async {
            continuation.resume(returning: World(seed: seed, omitting: omitting).run(operations: operations))
        }
    }
}
