import Glibc
import InterlockProcesses
import Subprocess
import Testing

@testable import InterlockCLI

/// `interlock run` as scripts run it: the built program with its own sidecar.
@Suite("`interlock run`", .serialized, .timeLimit(.minutes(3)))
struct RunTests {
    /// A command that prints its process ID and runs until it is killed.
    private static let sleeping = ["sh", "-c", "echo $$; exec sleep 600"]

    /// Returns a command that runs until it is killed and executes `action` on a signal.
    private static func trapping(_ signal: String, _ action: String) -> [String] {
        ["sh", "-c", "trap '\(action)' \(signal); echo $$; while :; do sleep 0.05; done"]
    }

    private struct Lock: Decodable {
        var label: String?
        var waiters: Int
        var ttlMs: Int
    }

    // MARK: The command

    @Test("The exit code is the command's, and its environment has lock, token and fence")
    func commandGetsLockTokenAndFence() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let outcome = try await sidecar.interlock(
                "run", "--lock", "orders", "--label", "tests", "--", "sh", "-c",
                "echo $INTERLOCK_LOCK $INTERLOCK_TOKEN $INTERLOCK_FENCE; echo fine >&2; exit 7")
            #expect(outcome.status == .exited(7))
            #expect(outcome.errors.hasSuffix("\nfine\n"))
            let words = outcome.output.split { $0 == " " || $0 == "\n" }
            #expect(words.count == 3)
            #expect(words.first == "orders")
            #expect(words.dropFirst().first?.hasPrefix("tests/") == true)
            #expect(words.last.flatMap { Int64($0) } != nil)
        }
    }

    @Test("Arguments arrive unchanged, without a shell")
    func argumentsAreUnchanged() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let outcome = try await sidecar.interlock(
                "run", "--lock", "orders", "--", "printf", "[%s]", "$HOME", "*", "a b", "", "--", "--help")
            #expect(outcome.status == .exited(0))
            #expect(outcome.output == "[$HOME][*][a b][][--][--help]")
        }
    }

    @Test("A signal that ends the command becomes 128 and its number")
    func signalCode() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let outcome = try await sidecar.interlock("run", "--lock", "orders", "--", "sh", "-c", "kill -KILL $$")
            #expect(outcome.status == .exited(137))
        }
    }

    @Test("A missing program exits with 127 and an unusable one with 126, before a sidecar is called")
    func unusableProgramExitsBeforeCall() async throws {
        // Port 1 has no listener.
        let run = ["run", "--sidecar", "127.0.0.1:1", "--lock", "orders", "--"]
        for absent in ["nothing-of-that-name", "/nowhere/nothing"] {
            let outcome = try await InterlockProcess.outcome(run + [absent])
            #expect(outcome.status == .exited(127))
            #expect(outcome.errors.contains(absent))
        }
        for unusable in ["/etc/passwd", "/etc"] {
            let outcome = try await InterlockProcess.outcome(run + [unusable])
            #expect(outcome.status == .exited(126))
            #expect(outcome.errors.contains(unusable))
        }
    }

    @Test("Signals reach the command")
    func signalsReachCommand() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let run = try await Self.start(["--lock", "orders"], Self.trapping("USR1", "echo got it; exit 5"), sidecar)
            run.send(signal: SIGUSR1)
            #expect(try await run.end(within: .seconds(20)) == .exited(5))
            #expect(run.output.hasSuffix("got it\n"))
        }
    }

    // MARK: The lock

    @Test("While the lock is held, `interlock run` exits with 75 and does not run its command; a finished run releases it")
    func heldLockExitsWithoutRunning() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let first = try await Self.start(["--lock", "orders"], Self.sleeping, sidecar)
            let second = try await sidecar.interlock("run", "--lock", "orders", "--", "echo", "ran")
            #expect(second.status == .exited(75))
            #expect(second.output.isEmpty)
            #expect(second.errors.hasPrefix("interlock: the lock orders is held by "))
            let third = try await sidecar.interlock("run", "--lock", "orders", "--wait", "50ms", "--", "echo", "ran")
            #expect(third.status == .exited(75))
            #expect(third.output.isEmpty)
            let customCode = try await sidecar.interlock(
                "run", "--lock", "orders", "--held-exit-code", "3", "--", "echo", "ran")
            #expect(customCode.status == .exited(3))
            #expect(customCode.errors.contains("is held by "))
            let silent = try await sidecar.interlock(
                "run", "--lock", "orders", "--held-exit-code", "0", "--", "echo", "ran")
            #expect(silent.status == .exited(0))
            #expect(silent.output.isEmpty)
            #expect(silent.errors.isEmpty)

            first.send(signal: SIGTERM)
            #expect(try await first.end(within: .seconds(20)) == .exited(128 + SIGTERM))
            let information = try await sidecar.interlock("lock", "show", "orders")
            #expect(information.status == .exited(1))
        }
    }

    @Test("With `--at-least` the lock stays held after a success, and is released after a failure")
    func atLeast() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            // The third run stands for the same job on another host a second later.
            for (command, status) in [("false", 1), ("true", 0), ("true", 75)] as [(String, Int32)] {
                let outcome = try await sidecar.interlock(
                    "run", "--lock", "orders", "--no-wait", "--at-least", "10m", "--", command)
                #expect(outcome.status == .exited(status))
            }
            // A renewed lease would be shorter.
            #expect(try await Self.lock(sidecar).ttlMs > 300_000)
        }
    }

    @Test("A waiting run starts when the lock is released")
    func waitingRunStartsAfterRelease() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let first = try await Self.start(["--lock", "orders"], Self.sleeping, sidecar)
            let second = try await InterlockProcess.start(
                ["run", "--lock", "orders", "--wait", "2m", "--", "echo", "ran"], environment: sidecar.environment())
            try await Self.waitUntilRunWaits(sidecar)
            first.send(signal: SIGTERM)
            #expect(try await second.end(within: .seconds(20)) == .exited(0))
            #expect(second.output == "ran\n")
        }
    }

    @Test("SIGTERM ends a wait without leaving anything behind")
    func waitGivenUp() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let first = try await Self.start(["--lock", "orders"], Self.sleeping, sidecar)
            let second = try await InterlockProcess.start(
                ["run", "--lock", "orders", "--wait", "2m", "--", "echo", "ran"], environment: sidecar.environment())
            try await Self.waitUntilRunWaits(sidecar)
            second.send(signal: SIGTERM)
            #expect(try await second.end(within: .seconds(20)) == .exited(128 + SIGTERM))
            #expect(second.output.isEmpty)
            try await eventually("no call waits") { try await Self.lock(sidecar).waiters == 0 }
            #expect(!first.hasEnded)
        }
    }

    @Test("The lease is renewed for as long as the command runs")
    func leaseIsRenewedWhileCommandRuns() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let start = ContinuousClock.now
            let run = try await Self.start(["--lock", "orders", "--ttl", "1s", "--label", "tests"], Self.sleeping, sidecar)
            try await eventually("two and a half leases have passed") {
                let label = try await Self.lock(sidecar).label
                #expect(label == "tests")
                return ContinuousClock.now - start > .milliseconds(2500)
            }
            #expect(!run.hasEnded)
        }
    }

    // MARK: Loss

    @Test("A broken lock ends the command with SIGTERM, and `interlock run` exits with 74")
    func brokenLockEndsCommand() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let run = try await Self.start(["--lock", "orders"], Self.trapping("TERM", "echo cleaning up; exit 3"), sidecar)
            let broken = try await sidecar.interlock("lock", "break", "orders")
            #expect(broken.status == .exited(0))
            #expect(try await run.end(within: .seconds(20)) == .exited(74))
            #expect(run.output.hasSuffix("cleaning up\n"))
            #expect(run.errors.contains("the lease of orders is lost"))
        }
    }

    @Test("In strict mode a command that ignores SIGTERM is killed when the lock is broken")
    func strictModeKillsCommand() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let run = try await Self.start(["--lock", "orders", "--strict"], Self.trapping("TERM", ""), sidecar)
            let group = try Self.group(run)
            #expect(group.hasLivingMembers)
            _ = try await sidecar.interlock("lock", "break", "orders")
            #expect(try await run.end(within: .seconds(20)) == .exited(74))
            #expect(!group.hasLivingMembers)
        }
    }

    @Test("In strict mode a command never outlives its lock, even if the sidecar is killed")
    func sidecarKilled() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let run = try await Self.start(["--lock", "orders", "--ttl", "2s", "--strict"], Self.trapping("TERM", ""), sidecar)
            let group = try Self.group(run)
            sidecar.process.send(signal: SIGKILL)
            let killed = ContinuousClock.now
            #expect(try await run.end(within: .seconds(20)) == .exited(74))
            // The lease may have been renewed just before the kill; `run` must not wait beyond its end.
            #expect(ContinuousClock.now - killed < .seconds(4))
            #expect(!group.hasLivingMembers)
        }
    }

    @Test("If `interlock run` is killed, so is its command, and the lease expires")
    func runKilled() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let run = try await Self.start(["--lock", "orders", "--ttl", "2s"], Self.sleeping, sidecar)
            let group = try Self.group(run)
            run.send(signal: SIGKILL)
            #expect(try await run.end(within: .seconds(20)) == .signaled(SIGKILL))
            try await eventually("the command is gone") { !group.hasLivingMembers }
            let next = try await sidecar.interlock("run", "--lock", "orders", "--wait", "25s", "--", "echo", "ran")
            #expect(next.output == "ran\n")
        }
    }

    // MARK: Leading

    @Test("When the leader dies, another candidate leads")
    func anotherCandidateSucceedsLeader() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let first = try await Self.start(["--lead", "orders", "--ttl", "2s"], Self.sleeping, sidecar)
            let second = try await InterlockProcess.start(
                ["run", "--lead", "orders", "--ttl", "2s", "--"] + Self.sleeping, environment: sidecar.environment())
            try await Self.waitUntilRunWaits(sidecar)
            #expect(second.output.isEmpty)
            first.send(signal: SIGKILL)
            try await eventually("the second candidate leads") { second.output.hasSuffix("\n") }
            second.send(signal: SIGTERM)
            #expect(try await second.end(within: .seconds(20)) == .exited(128 + SIGTERM))
            let information = try await sidecar.interlock("lock", "show", "orders")
            #expect(information.status == .exited(1))
        }
    }

    @Test("A deposed leader is a candidate again, and resigns when its command ends")
    func deposedLeaderIsCandidateAgain() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let leader = try await Self.start(["--lead", "orders"], Self.trapping("USR1", "exit 4"), sidecar)
            #expect(leader.errors.contains("\ninterlock: leading orders, fence "))
            _ = try await sidecar.interlock("lock", "break", "orders")
            try await eventually("the candidate leads again") { leader.output.split(separator: "\n").count == 2 }
            leader.send(signal: SIGUSR1)
            #expect(try await leader.end(within: .seconds(20)) == .exited(4))
            #expect(leader.errors.ranges(of: "leading orders, fence ").count == 2)
            let information = try await sidecar.interlock("lock", "show", "orders")
            #expect(information.status == .exited(1))
        }
    }

    @Test("A candidate survives an outage of its sidecar, and SIGTERM ends it")
    func candidateWithoutSidecar() async throws {
        let candidate = try await InterlockProcess.start(
            ["run", "--sidecar", "127.0.0.1:1", "--lead", "orders", "--", "echo", "ran"])
        try await eventually("the candidate reports a retry") { candidate.errors.contains("retrying") }
        candidate.send(signal: SIGTERM)
        #expect(try await candidate.end(within: .seconds(20)) == .exited(128 + SIGTERM))
        #expect(candidate.output.isEmpty)
    }

    @Test("A candidate retries when no replica acknowledges its lease, and SIGTERM ends it")
    func unreplicatedCandidate() async throws {
        try await SidecarProcess.withSidecar(configuration: "locks: { wait_replicas: 1 }") { sidecar in
            let candidate = try await InterlockProcess.start(
                ["run", "--lead", "orders", "--", "echo", "ran"], environment: sidecar.environment())
            try await eventually("the candidate reports a retry") { candidate.errors.contains("retrying") || candidate.hasEnded }
            #expect(candidate.errors.contains("UNREPLICATED") || candidate.errors.contains("replicas"))
            candidate.send(signal: SIGTERM)
            #expect(try await candidate.end(within: .seconds(20)) == .exited(128 + SIGTERM))
            #expect(candidate.output.isEmpty)
        }
    }

    // MARK: Failures

    @Test("Without a sidecar `interlock run` exits with 69 and runs nothing")
    func noSidecar() async throws {
        let outcome = try await InterlockProcess.outcome(
            ["run", "--sidecar", "127.0.0.1:1", "--lock", "orders", "--", "echo", "ran"])
        #expect(outcome.status == .exited(69))
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.contains("no sidecar answers at 127.0.0.1:1"))
    }

    @Test("Without Redis `interlock run` exits with 69 and runs nothing")
    func redisUnreachable() async throws {
        try await RedisServer.withServer(listener: .none) { server in
            try await SidecarProcess.withSidecar(arguments: ["--redis", "unix://\(server.socketPath)"]) { sidecar in
                await server.kill()
                try await eventually("the sidecar reports that Redis is unreachable") {
                    try await sidecar.interlock("status").status == .exited(69)
                }
                let outcome = try await sidecar.interlock("run", "--lock", "orders", "--no-wait", "--", "echo", "ran")
                #expect(outcome.status == .exited(69))
                #expect(outcome.output.isEmpty)
            }
        }
    }

    @Test(
        "Invalid usage exits with 64",
        arguments: [
            ["--", "true"], ["--lock", "a"], ["--lock", "a", "true"], ["--lock", "a", "--lead", "b", "--", "true"],
            ["--lock", "a", "--wait", "1s", "--no-wait", "--", "true"], ["--lead", "a", "--no-wait", "--", "true"],
            ["--lock", "a", "--shared", "--permits", "2", "--", "true"], ["--lock", "a", "--permits", "0", "--", "true"],
            ["--lock", "a b", "--", "true"], ["--lock", "a", "--ttl", "1ms", "--", "true"],
            ["--lock", "a", "--label", "a b", "--", "true"],
            ["--lock", "a", "--held-exit-code", "256", "--", "true"], ["--lock", "a", "--held-exit-code", "-1", "--", "true"],
        ])
    func invalidUsageExitsWith64(arguments: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(["run"] + arguments)
        #expect(outcome.status == .exited(64))
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.hasPrefix("interlock: "))
    }

    @Test("Help explains the command")
    func helpExplainsCommand() async throws {
        let outcome = try await InterlockProcess.outcome(["run", "--help"])
        #expect(outcome.status == .exited(0))
        #expect(outcome.output.contains("EXAMPLES"))
        let all = try await InterlockProcess.outcome(["--help"])
        #expect(all.output.contains("Run a command while holding a lock"))
        #expect(!all.output.contains(RunChild.name))
    }

    // MARK: Helpers

    /// Starts `interlock run` with a command that prints a line first, and waits for that line.
    private static func start(
        _ options: [String], _ command: [String], _ sidecar: SidecarProcess
    ) async throws -> InterlockProcess {
        let run = try await InterlockProcess.start(
            ["run"] + options + ["--"] + command, environment: sidecar.environment())
        try await eventually("the command runs") {
            if run.hasEnded { throw InterlockProcess.Problem(reason: "interlock run ended: \(run.errors)") }
            return run.output.contains("\n")
        }
        return run
    }

    /// Returns the process group of a command that printed its process ID.
    private static func group(_ run: InterlockProcess) throws -> ProcessGroup {
        ProcessGroup(id: try #require(run.output.split(separator: "\n").first.flatMap { pid_t($0) }))
    }

    private static func lock(_ sidecar: SidecarProcess) async throws -> Lock {
        try await sidecar.interlock("lock", "show", "orders", "--json").decoded(Lock.self)
    }

    private static func waitUntilRunWaits(_ sidecar: SidecarProcess) async throws {
        try await eventually("a run waits for the lock") { try await lock(sidecar).waiters == 1 }
    }
}
