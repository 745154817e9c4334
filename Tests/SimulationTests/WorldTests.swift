import Dispatch
import FoundationEssentials
import InterlockJudge
import InterlockProcesses
import NIOCore
import Subprocess
import SystemPackage
import Testing

@testable import Simulation

@Suite("Simulated worlds", .serialized, .timeLimit(.minutes(10)))
struct WorldTests {
    @Test("A seed determines a world's history, and another seed produces another history")
    func seedDeterminesHistory() async throws {
        let first = try await digest(ofSeed: 8)
        #expect(try await digest(ofSeed: 8) == first)
        #expect(try await digest(ofSeed: 3) != first)
    }

    /// Runs a world in its own process, in which dictionaries have a fixed order. Expects no findings. Returns the
    /// digest.
    private func digest(ofSeed seed: UInt64) async throws -> Substring {
        let result = try await Subprocess.run(
            .path(FilePath(try BuiltProgram.path("simulate"))),
            arguments: ["--seed", "\(seed)", "--operations", "800", "--digest"],
            output: .string(limit: 1 << 16), error: .discarded)
        #expect(result.terminationStatus.isSuccess, "seed \(seed): \(result.standardOutput)")
        // The output has the form "seed 3: digest 95ce83747303ab3".
        let words = result.standardOutput.split(separator: "\n").first?.split(separator: " ") ?? []
        return try #require(words.count == 4 ? words[3] : nil, "\(result.standardOutput)")
    }

    @Test("An omitted fault does not happen, and the world is otherwise the same")
    func omittedFaultDoesNotHappen() async throws {
        let complete = await simulated(1, operations: 1500)
        let omittedFault = try #require(complete.faults.first?.number)
        let result = await simulated(
            1, operations: 1500, subset: WorldSubset(faults: Set(complete.faults.map(\.number)).subtracting([omittedFault])))
        #expect(!result.faults.contains { $0.number == omittedFault })
        #expect(result.profile == complete.profile)
    }

    @Test("Ordinary worlds have no unknown findings", arguments: 1...8)
    func ordinaryWorldsHaveNoUnknownFindings(seed: Int) async {
        let result = await simulated(UInt64(seed), operations: 600)
        #expect(result.unknownFindings.isEmpty, "seed \(seed): \(result.unknownFindings.prefix(3)); \(result.faults)")
        #expect(result.operations >= 600)
    }
}

@Suite("Histories of simulated worlds", .timeLimit(.minutes(10)))
struct WrittenHistoryTests {
    @Test("A history that is written and read again has the same findings, and only its first line names its source")
    func written() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let world = await simulated(1, operations: 800)
        let path = "\(folder.path)/history.jsonl"
        try world.write(to: path)
        let replayed = try HistoryCheck(replaying: path)
        #expect(replayed.report.violationCount == world.check.violationCount)
        #expect(replayed.report.operations == world.check.operations)
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.count(where: { $0.contains("simulation") }) == 1)
        #expect(lines[0].contains(#""source":"simulation""#))
    }
}

/// Runs a world on a separate thread, because it never suspends.
func simulated(_ seed: UInt64, operations: Int, subset: WorldSubset = WorldSubset()) async -> WorldResult {
    await withCheckedContinuation { continuation in
        DispatchQueue.global().async {
            continuation.resume(returning: World(seed: seed, subset: subset).run(operations: operations))
        }
    }
}

@Suite("Shrunk stories", .timeLimit(.minutes(10)))
struct ShrinkerTests {
    @Test("A shrunk story still shows the finding, with fewer operations, faults and clients")
    func shrunkStoryStillShowsFinding() async throws {
        // Redis restarts before a sidecar knows the others.
        let complete = await simulated(10_817, operations: 1000, subset: WorldSubset(isPlain: true))
        #expect(complete.knownFindings["fleet_size"] != nil)
        let beginning = try #require(Shrinker(complete, operations: 1000, target: "fleet_size", isPlain: true))
        let shrinker = await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                var shrinker = beginning
                shrinker.run { _ in }
                continuation.resume(returning: shrinker)
            }
        }
        #expect(shrinker.result.knownFindings["fleet_size"] != nil)
        #expect(shrinker.result.operations < complete.operations)
        #expect(shrinker.result.faults.count <= complete.faults.count)
        #expect(shrinker.story.contains { $0.contains("redis-restart") })
    }
}

@Suite("Event loops on virtual time")
struct SimulatedEventLoopTests {
    /// Returns whether a job that `schedule` adds to the event loop runs within a millisecond.
    private func happens(_ schedule: (SimulatedEventLoop, @escaping @Sendable () -> Void) -> Void) -> Bool {
        let timeline = WorldTimeline()
        let loop = SimulatedEventLoop(timeline: timeline)
        nonisolated(unsafe) var hasHappened = false
        schedule(loop) { hasHappened = true }
        timeline.run(until: timeline.now + 1_000_000) { false }
        return hasHappened
    }

    @Test("A job added from outside the loop runs")
    func jobAddedFromOutsideLoopRuns() {
        #expect(happens { loop, body in loop.execute(body) })
    }

    @Test("A job added from within the loop runs, even if nothing else wakes the loop")
    func jobAddedWithinLoopRuns() {
        #expect(happens { loop, body in loop.enter { loop.execute(body) } })
    }

    @Test("A timer set from within the loop fires in time")
    func timerSetWithinLoopFiresOnTime() {
        #expect(happens { loop, body in loop.enter { _ = loop.scheduleTask(in: .microseconds(500), body) } })
    }
}
