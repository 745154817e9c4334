import FoundationEssentials
import Subprocess
import Testing

@testable import InterlockTesting

/// `interlock bench` as people run it: its own fleet, real faults, and a judgement.
@Suite("interlock bench", .serialized, .timeLimit(.minutes(5)))
struct BenchTests {
    @Test("a minute of everything at once, with every kind of fault: no promise is broken")
    func mixedMinute() async throws {
        let process = try await InterlockProcess.start([
            "bench", "mixed", "--fleet", "3", "--duration", "60s", "--rate", "400", "--clients", "96", "--names", "300",
            "--faults",
            "all", "--seed", "20261121",
        ])
        let status = try await process.end(within: .seconds(180))
        #expect(status == .exited(0), "\(process.output)\n\(process.errors)")
        #expect(process.output.contains("\n0 violations in "))
        #expect(process.errors.contains("begins: "))
    }

    @Test("a history that a run wrote down is judged again alike")
    func history() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/run.jsonl"
        let run = try await InterlockProcess.outcome([
            "bench", "lock", "--fleet", "1", "--duration", "2s", "--rate", "100", "--clients", "8", "--history", file,
        ])
        #expect(run.status == .exited(0), "\(run.errors)")
        let check = try await InterlockProcess.outcome(["bench", "check", file])
        #expect(check.status == .exited(0), "\(check.errors)")
        let verdict = run.output.split(separator: "\n").last.map(String.init)
        #expect(check.output.split(separator: "\n").last.map(String.init) == verdict)
    }

    @Test("a simulated seed is replayed exactly, and a broken rule is refused with how to see it again")
    func simulation() async throws {
        let words = ["bench", "simulate", "--seed", "7", "--steps", "3000"]
        let first = try await InterlockProcess.outcome(words)
        let second = try await InterlockProcess.outcome(words)
        #expect(first.status == .exited(0), "\(first.errors)")
        #expect(first.output.contains("digest") && first.output == second.output)
        let broken = try await InterlockProcess.outcome([
            "bench", "simulate", "--seeds", "30", "--steps", "3000", "--mutant", "no-fence",
        ])
        #expect(broken.status == .exited(1))
        #expect(broken.errors.contains("again: interlock bench simulate --seed "))
    }

    @Test(
        "what cannot be run is refused with what was expected",
        arguments: [
            ["bench", "lock", "--rate", "0"], ["bench", "lock", "--rate", "5", "--closed-loop"],
            ["bench", "lock", "--skew", "zipf"], ["bench", "lock", "--hold", "5"], ["bench", "lock", "--names", "0"],
            ["bench", "mixed", "--faults", "fire"], ["bench", "mixed", "--mix", "lock=0"],
            ["bench", "lock", "--sidecars", "127.0.0.1:1", "--faults", "kill"], ["bench", "simulate", "--mutant", "none"],
        ])
    func refused(words: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(words)
        #expect(outcome.status == .exited(64))
        #expect(!outcome.errors.isEmpty)
    }

    @Test("a sidecar that does not answer is said to be unreachable")
    func unreachable() async throws {
        let outcome = try await InterlockProcess.outcome([
            "bench", "lock", "--sidecars", "127.0.0.1:1", "--clients", "1", "--duration", "1s",
        ])
        #expect(outcome.status == .exited(69))
        #expect(outcome.errors.contains("sidecar 0"))
    }

    @Test("a history that is damaged or missing is an error that names the file")
    func badHistory() async throws {
        let outcome = try await InterlockProcess.outcome(["bench", "check", "/nowhere/run.jsonl"])
        #expect(outcome.status == .exited(1))
        #expect(outcome.errors.contains("/nowhere/run.jsonl"))
    }
}
