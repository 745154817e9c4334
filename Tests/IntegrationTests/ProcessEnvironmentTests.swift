import FoundationEssentials
import Glibc
import InterlockProcesses
import Subprocess
import Testing

/// Processes without `/proc`, without enough descriptors, with closed streams, or with inherited children.
@Suite("Process environment", .serialized, .timeLimit(.minutes(2)))
struct ProcessEnvironmentTests {
    /// Returns a wrapper that runs a command in its own mount namespace, after `preparation`.
    private static func mountNamespace(after preparation: String) -> [String] {
        ["unshare", "--map-root-user", "--mount", "sh", "-c", "\(preparation) && exec \"$@\"", "sh"]
    }

    /// Whether this system lets a process have its own mount namespace.
    private static let canUnshareMounts =
        system("unshare --map-root-user --mount sh -c 'mount -t tmpfs none /proc' 2>/dev/null") == 0

    @Test("A command still has its arguments when /proc/self/cmdline is unreadable", .enabled(if: canUnshareMounts))
    func argumentsSurviveUnreadableCommandLine() async throws {
        let hidden = Self.mountNamespace(after: "mount --bind /dev/null /proc/$$/cmdline")
        let checked = try await InterlockProcess.outcome(["check-config", "/nonexistent.yaml"], through: hidden)
        #expect(checked.status == .exited(1))
        #expect((checked.output + checked.errors).contains("/nonexistent.yaml"))
        let version = try await InterlockProcess.outcome(["version"], through: hidden)
        #expect(version.status == .exited(0))
        #expect(!version.output.contains("EXIT CODES"))
        let job = try await InterlockProcess.outcome(
            ["run", "--sidecar", "127.0.0.1:1", "--lock", "a", "--", "true"], through: hidden)
        #expect(job.status == .exited(69))
        #expect(job.errors.contains("no sidecar answers at 127.0.0.1:1"))
        let bench = try await InterlockProcess.outcome(["bench", "lock", "--rate", "0"], through: hidden)
        #expect(bench.status == .exited(64))
    }

    @Test(
        "Without /proc every command fails with an error", .enabled(if: canUnshareMounts),
        arguments: [
            ["check-config", "/nonexistent.yaml"], ["version"], ["run", "--lock", "a", "--", "true"], ["bench", "lock"], [],
        ])
    func withoutProc(words: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(words, through: Self.mountNamespace(after: "mount -t tmpfs none /proc"))
        #expect(outcome.status == .exited(69))
        #expect(outcome.errors.contains("/proc"))
        #expect(outcome.output.isEmpty)
    }

    @Test("A command without its required words fails", arguments: [[], ["lock"], ["config"], ["bench"]])
    func missingWords(words: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(words)
        #expect(outcome.status == .exited(64))
        #expect((outcome.output + outcome.errors).contains("SUBCOMMANDS"))
    }

    @Test("The command of `run` inherits no descriptor in place of closed standard streams")
    func closedStreams() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let file = "\(sidecar.folder)/streams"
            let process = try await InterlockProcess.start(
                [
                    "run", "--lock", "orders", "--", "sh", "-c",
                    "for stream in 0 1 2; do found=$found$(readlink /proc/$$/fd/$stream),; done; echo $found > \(file); exit 3",
                ], environment: sidecar.environment(), through: ["sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh"])
            #expect(try await process.end(within: .seconds(20)) == .exited(3))
            let streams = try String(contentsOfFile: file, encoding: .utf8)
            #expect(streams == "/dev/null,/dev/null,/dev/null,\n")
        }
    }

    @Test("A command that lacks descriptors fails with an error")
    func fewDescriptors() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let outcome = try await InterlockProcess.outcome(
                ["run", "--lock", "orders", "--", "echo", "ran"], environment: sidecar.environment(),
                through: ["sh", "-c", "ulimit -n 16; exec \"$@\"", "sh"])
            #expect(outcome.status == .exited(69))
            #expect(outcome.errors.contains("ulimit -n"))
            #expect(outcome.output.isEmpty)
        }
    }

    @Test("`interlock run` reaps orphans as PID 1")
    func interlockRunReapsOrphansAsPID1() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            // Like PID 1 of a container, a subreaper is the new parent of its descendants' orphans.
            let subreaper = [
                "python3", "-c",
                "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])",
            ]
            let process = try await InterlockProcess.start(
                ["run", "--lock", "orders", "--", "sh", "-c", "sh -c 'sleep 0.1 & echo $!'; exec sleep 600"],
                environment: sidecar.environment(), through: subreaper)
            defer { process.send(signal: SIGKILL) }
            try await eventually("the orphan runs") { process.output.hasSuffix("\n") }
            let orphan = try #require(pid_t(process.output.dropLast()))
            // A zombie can still be signaled.
            try await eventually(within: .seconds(10), "the orphan is reaped") { kill(orphan, 0) != 0 }
            process.send(signal: SIGTERM)
            #expect(try await process.end(within: .seconds(20)) == .exited(128 + SIGTERM))
        }
    }

    @Test("The command of `run` gets the API key only on request")
    func apiKey() async throws {
        let key = "ops-of-32-letters-and-more-than-that"
        let keys = "auth: { keys: [ { name: ops, key: \(key), role: admin } ] }"
        try await SidecarProcess.withSidecar(configuration: keys) { sidecar in
            let words = ["run", "--lock", "orders", "--", "sh", "-c", "echo \"[$INTERLOCK_API_KEY]\""]
            let plain = try await InterlockProcess.outcome(words, environment: sidecar.environment(apiKey: key))
            #expect(plain.output == "[]\n")
            let passed = try await InterlockProcess.outcome(
                ["run", "--pass-api-key"] + words.dropFirst(), environment: sidecar.environment(apiKey: key))
            #expect(passed.output == "[\(key)]\n")
        }
    }
}
