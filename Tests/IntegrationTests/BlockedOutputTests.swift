import FoundationEssentials
import Glibc
import InterlockProcesses
import RedisClient
import Subprocess
import Testing

/// Standard output and error are pipes without a reader, as when a log collector has stopped.
@Suite("Output with a blocked reader", .serialized, .timeLimit(.minutes(3)))
struct BlockedOutputTests {
    private static func withPipe(_ body: (BlockedPipe, TemporaryFolder) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        try await body(BlockedPipe(at: "\(folder.path)/pipe"), folder)
    }

    private static func serve(
        _ folder: TemporaryFolder, descriptor: Int32, into pipe: BlockedPipe
    ) async throws -> InterlockProcess {
        let file = "\(folder.path)/interlock.yaml"
        try Data("redis: { embedded: true, timeout: 10s }\n".utf8).write(to: URL(filePath: file))
        return try await InterlockProcess.start(
            SidecarProcess.serveArguments(file: file, folder: folder.path) + ["--unix", "\(folder.path)/interlock.sock"],
            through: pipe.wrapper(descriptor: descriptor))
    }

    private static func client(_ folder: TemporaryFolder) -> RedisClient {
        var address = RedisConfiguration(address: .unixSocket(path: "\(folder.path)/interlock.sock"))
        address.connectTimeout = .seconds(10)
        address.commandTimeout = .seconds(10)
        return RedisClient(configuration: address)
    }

    private static func end(_ process: InterlockProcess) async throws {
        process.send(signal: SIGTERM)
        let status = try? await process.end(within: .seconds(10))
        if status == nil { process.send(signal: SIGKILL) }
        #expect(status == .exited(0), "SIGTERM ends the sidecar within 10 s")
    }

    @Test("A blocked log delays neither replies, nor leases, nor the shutdown, and lost lines are counted")
    func blockedLogDelaysNothing() async throws {
        try await Self.withPipe { pipe, folder in
            let sidecar = try await Self.serve(folder, descriptor: STDERR_FILENO, into: pipe)
            defer { sidecar.send(signal: SIGKILL) }
            try await eventually(within: .seconds(20), "the sidecar is ready") { sidecar.output.contains("is ready.") }
            let client = Self.client(folder)
            try await client.connect()
            // Each break is a line of about 350 bytes: 1.4 MB in all, more than the backlog and the pipe hold.
            let name = String(repeating: "n", count: 250)
            for _ in 0..<40 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<100 {
                        group.addTask {
                            _ = try await client.send(AnyCommand(["LOCK.ACQUIRE", "\(name)\(number)", "60000"]))
                            _ = try await client.send(AnyCommand(["LOCK.BREAK", "\(name)\(number)"]))
                        }
                    }
                    try await group.waitForAll()
                }
            }
            #expect(try await Self.dropped(sidecar) > 0)
            // The pipe holds only its padding so far. Later lines are in order, and the dropped ones are reported.
            var log = pipe.read()
            try await eventually("the log continues and names the gap") {
                log += pipe.read()
                return log.contains("event=log.dropped")
            }
            let lines = log.split(separator: "\n").filter { !$0.hasPrefix("....") }
            #expect(lines.first?.contains("event=sidecar.started") == true)
            let times = lines.compactMap { $0.split(separator: " ").first.map(String.init) }
            #expect(times == times.sorted())
            await client.close()
            try await Self.end(sidecar)
            #expect(pipe.read().contains("event=sidecar.stopped"))
        }
    }

    /// Returns the metric `interlock_log_lines_dropped_total`.
    private static func dropped(_ sidecar: InterlockProcess) async throws -> Int {
        let url = try #require(
            sidecar.output.split(separator: "\n").first { $0.contains("/readyz") }?.split(separator: " ").last)
        let result = try await run(
            .name("curl"),
            arguments: ["--silent", "--max-time", "10", "http://\(url.dropLast("readyz".count))metrics"],
            output: .string(limit: 1 << 20), error: .discarded)
        let line = result.standardOutput.split(separator: "\n").first {
            $0.hasPrefix("interlock_log_lines_dropped_total ")
        }
        return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
    }

    @Test("SIGTERM ends a sidecar in time while its log is blocked")
    func sigtermEndsSidecarWithBlockedLog() async throws {
        try await Self.withPipe { pipe, folder in
            let sidecar = try await Self.serve(folder, descriptor: STDERR_FILENO, into: pipe)
            defer { sidecar.send(signal: SIGKILL) }
            try await eventually(within: .seconds(20), "the sidecar is ready") { sidecar.output.contains("is ready.") }
            try await Self.end(sidecar)
        }
    }

    @Test("A blocked banner delays neither replies nor the shutdown")
    func blockedBannerDelaysNeitherRepliesNorShutdown() async throws {
        try await Self.withPipe { pipe, folder in
            let sidecar = try await Self.serve(folder, descriptor: STDOUT_FILENO, into: pipe)
            defer { sidecar.send(signal: SIGKILL) }
            try await eventually(within: .seconds(20), "Redis is connected") {
                sidecar.errors.contains("event=redis.connected")
            }
            let client = Self.client(folder)
            try await client.connect()
            _ = try await client.send(AnyCommand(["LOCK.ACQUIRE", "orders", "60000"]))
            await client.close()
            try await Self.end(sidecar)
        }
    }

    @Test("`interlock run` renews, ends and runs its command while its messages are blocked")
    func runContinuesWhileMessagesAreBlocked() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            try await Self.withPipe { pipe, _ in
                let leader = try await InterlockProcess.start(
                    ["run", "--lead", "orders", "--ttl", "2s", "--", "sh", "-c", "echo $$; exec sleep 600"],
                    environment: sidecar.environment(), through: pipe.wrapper(descriptor: STDERR_FILENO))
                defer { leader.send(signal: SIGKILL) }
                try await eventually("the candidate leads") { leader.output.contains("\n") }
                _ = try await sidecar.interlock("lock", "break", "orders")
                try await eventually("the candidate leads again") { leader.output.split(separator: "\n").count == 2 }
                leader.send(signal: SIGTERM)
                #expect(try await leader.end(within: .seconds(10)) == .exited(128 + SIGTERM))
            }
        }
    }

    @Test(
        "SIGTERM ends a command whose output is blocked", arguments: [["top", "--json", "--every", "100ms"], ["events"]])
    func sigtermEndsCommandWithBlockedOutput(words: [String]) async throws {
        try await SidecarProcess.withSidecar { sidecar in
            try await Self.withPipe { pipe, _ in
                let command = try await InterlockProcess.start(
                    words, environment: sidecar.environment(), through: pipe.wrapper(descriptor: STDOUT_FILENO))
                defer { command.send(signal: SIGKILL) }
                try await eventually("a thread of the command waits for the pipe") {
                    _ = try await sidecar.interlock("lock", "acquire", "orders")
                    _ = try await sidecar.interlock("lock", "break", "orders")
                    return Self.waitsForPipe(try #require(command.pid))
                }
                command.send(signal: SIGTERM)
                let status = try? await command.end(within: .seconds(5))
                #expect(status != nil)
            }
        }
    }

    /// Whether a thread of the process is in a write to standard output (Linux' call number 1 on x86-64, 64 on arm64).
    private static func waitsForPipe(_ process: pid_t) -> Bool {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
        return threads.contains { thread in
            let call = (try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/syscall", encoding: .utf8)) ?? ""
            return call.hasPrefix("1 0x1 ") || call.hasPrefix("64 0x1 ")
        }
    }
}
