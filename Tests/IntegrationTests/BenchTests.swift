import FoundationEssentials
import Subprocess
import SystemPackage
import Testing

@testable import InterlockProcesses

/// `interlock bench` as users run it: with its own fleet, real faults, and a check of the history.
@Suite("`interlock bench`", .serialized, .timeLimit(.minutes(5)))
struct BenchTests {
    @Test("A minute of all operations and all faults violates no invariant")
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

    @Test("Checking a recorded history gives the same result as the run")
    func checkingRecordedHistoryGivesSameResultAsRun() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/run.jsonl"
        let run = try await InterlockProcess.outcome([
            "bench", "lock", "--fleet", "1", "--duration", "2s", "--rate", "100", "--clients", "8", "--history", file,
        ])
        #expect(run.status == .exited(0), "\(run.errors)")
        let check = try await InterlockProcess.outcome(["bench", "check", file])
        #expect(check.status == .exited(0), "\(check.errors)")
        let result = run.output.split(separator: "\n").last.map(String.init)
        #expect(check.output.split(separator: "\n").last.map(String.init) == result)
    }

    @Test("Without interlock-bench the error says how to install it")
    func missing() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let copy = "\(folder.path)/interlock"
        // Another process makes the copy: a program cannot start while this process, or a child it starts meanwhile,
        // has the file open for writing.
        let outcome = try await run(
            .path("/bin/sh"),
            arguments: ["-c", "/bin/cp \"$0\" \"$1\" && exec \"$1\" bench lock", try InterlockProcess.program(), copy],
            environment: .inherit.updating(["PATH": folder.path]), input: .none, output: .discarded, error: .string(limit: 4096))
        #expect(outcome.terminationStatus == .exited(64))
        #expect(outcome.standardError.contains("run `make build`"))
    }

    @Test("`bench peers` executes its program with no signal blocked")
    func peersBlockNoSignal() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        // Another process writes the file, for the reason above. A shell as its interpreter could unblock signals.
        let script = """
            mkdir Benchmarks && printf '#!/usr/bin/env -S grep SigBlk /proc/self/status\\n' >Benchmarks/judge.py &&
            chmod +x Benchmarks/judge.py && exec "$@"
            """
        let process = try await InterlockProcess.start(
            ["bench", "peers"], through: ["env", "-C", folder.path, "sh", "-c", script, "sh"])
        #expect(try await process.end(within: .seconds(20)) == .exited(0), "\(process.errors)")
        #expect(process.output.contains("SigBlk:\t0000000000000000\n"), "\(process.output)")
    }

    @Test(
        "`bench simulate` names its replacement",
        arguments: [[], ["--seed", "7"], ["--party", "locks", "--steps", "5"]])
    func benchSimulateNamesReplacement(options: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(["bench", "simulate"] + options)
        #expect(outcome.status == .exited(64))
        #expect(outcome.errors.contains("make simulate ARGS='--seed 7'"))
    }

    @Test(
        "Invalid options are rejected",
        arguments: [
            ["bench", "lock", "--rate", "0"], ["bench", "lock", "--rate", "5", "--closed-loop"],
            ["bench", "lock", "--skew", "zipf"], ["bench", "lock", "--hold", "5"], ["bench", "lock", "--names", "0"],
            ["bench", "mixed", "--faults", "fire"], ["bench", "mixed", "--mix", "lock=0"],
            ["bench", "lock", "--sidecars", "127.0.0.1:1", "--faults", "kill"], ["bench", "mixed", "--faults", "full"],
        ])
    func invalidOptions(words: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(words)
        #expect(outcome.status == .exited(64))
        #expect(!outcome.errors.isEmpty)
    }

    @Test("A sidecar that does not answer is reported as unreachable")
    func sidecarThatDoesNotAnswerIsReportedAsUnreachable() async throws {
        let outcome = try await InterlockProcess.outcome([
            "bench", "lock", "--sidecars", "127.0.0.1:1", "--clients", "1", "--duration", "1s",
        ])
        #expect(outcome.status == .exited(69))
        #expect(outcome.errors.contains("sidecar 0"))
    }

    @Test("A damaged or missing history is an error that names the file")
    func badHistory() async throws {
        let outcome = try await InterlockProcess.outcome(["bench", "check", "/nowhere/run.jsonl"])
        #expect(outcome.status == .exited(1))
        #expect(outcome.errors.contains("/nowhere/run.jsonl"))
    }
}
