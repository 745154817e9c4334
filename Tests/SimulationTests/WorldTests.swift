import Dispatch
import FoundationEssentials
import InterlockJudge
import InterlockProcesses
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
        let rest = await simulated(1, operations: 1500, cut: Cut(faults: Set(whole.faults.map(\.number)).subtracting([left])))
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

@Suite("Histories of simulated worlds", .timeLimit(.minutes(10)))
struct WrittenHistoryTests {
    @Test("written down and read again, a history is judged as the world was, and only its first line says where it comes from")
    func written() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let world = await simulated(1, operations: 800)
        let path = "\(folder.path)/history.jsonl"
        try world.write(to: path)
        let again = try HistoryCheck(replaying: path)
        #expect(again.report.violationCount == world.check.violationCount)
        #expect(again.report.operations == world.check.operations)
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.count(where: { $0.contains("simulation") }) == 1)
        #expect(lines[0].contains(#""source":"simulation""#))
    }
}

/// Runs a world on a thread of its own: it does not give way to other tests.
func simulated(_ seed: UInt64, operations: Int, cut: Cut = Cut()) async -> WorldResult {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().async {
            continuation.resume(returning: World(seed: seed, cut: cut).run(operations: operations))
        }
    }
}
