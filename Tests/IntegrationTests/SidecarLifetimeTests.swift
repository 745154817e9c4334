import FoundationEssentials
import Glibc
import InterlockProcesses
import InterlockTesting
import Subprocess
import Testing

@Suite("Lifetime of a sidecar", .serialized, .timeLimit(.minutes(2)))
struct SidecarLifetimeTests {
    @Test("SIGTERM ends the sidecar within 10 seconds, without an error, together with its Redis")
    func sigtermEndsSidecarWithinTenSeconds() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let redis = try await sidecar.redisProcess()
            sidecar.process.send(signal: SIGTERM)
            let status = try await sidecar.process.end(within: .seconds(10))
            #expect(status == .exited(0))
            #expect(!Self.isAlive(redis))
        }
    }

    @Test("A sidecar without Redis shuts down as quickly, and logs no internals")
    func terminationWithoutRedis() async throws {
        let process = try await InterlockProcess.start(
            ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1"],
            environment: InterlockProcess.environment.updating(["INTERLOCK_LOG_LEVEL": "debug"]))
        try await eventually(within: .seconds(20), "the listeners are open, and Redis was tried") {
            ["event=door.opened", "door=resp", "door=http", "event=redis.lost"].allSatisfy(process.errors.contains)
        }
        let clock = ContinuousClock()
        let begin = clock.now
        process.send(signal: SIGTERM)
        #expect(try await process.end(within: .seconds(20)) == .exited(0))
        #expect(clock.now - begin < .seconds(5))
        let log = process.errors
        #expect(log.contains("redis://127.0.0.1:1/0 refuses connections"))
        for name in ["ServiceLifecycle", "SingleConnectionFailure", "SHA256", "CancellationError"] {
            #expect(!log.contains(name), "\(name)")
        }
        let lines = log.split(separator: "\n")
        let start = try #require(lines.first)
        #expect(start.contains(" event=sidecar.started ") && start.contains(" redis=redis://127.0.0.1:1/0 "))
        for field in ["config=none", "http=127.0.0.1:0", "id=", "prefix=interlock:", "resp=127.0.0.1:0", "version="] {
            #expect(start.contains(" \(field)"), "\(field)")
        }
        #expect(try #require(lines.last).contains(#"event=sidecar.stopped message="Sidecar stopped" ran="#))
        #expect(try #require(lines.last).hasSuffix("s reason=SIGTERM"))
    }

    @Test("systemd is notified of readiness, the watchdog, reloads and the end")
    func serviceManager() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let listener = try DatagramListener(at: "\(folder.path)/notify")
        var received: [String] = []
        func expectNotification(_ line: String) async throws {
            try await eventually(within: .seconds(20), "systemd receives \(line) after \(received)") {
                while let datagram = listener.next() { received += datagram.split(separator: "\n").map { String($0) } }
                return received.contains(line)
            }
        }
        // No Redis listens at port 1; a sidecar becomes ready without one.
        let process = try await InterlockProcess.start(
            ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1"],
            environment: InterlockProcess.environment.updating([
                "NOTIFY_SOCKET": "\(folder.path)/notify", "WATCHDOG_USEC": "20000",
            ]))
        defer { process.send(signal: SIGKILL) }
        try await expectNotification("READY=1")
        try await expectNotification("WATCHDOG=1")
        try await eventually("the status names Redis and its error") {
            while let datagram = listener.next() { received += datagram.split(separator: "\n").map { String($0) } }
            return received.contains { $0.hasPrefix("STATUS=Serving without Redis: ") && $0.contains("refuses connections") }
        }
        received = []
        process.send(signal: SIGHUP)
        try await expectNotification("READY=1")
        let reloading = try #require(received.firstIndex(of: "RELOADING=1"))
        #expect(received[reloading + 1].hasPrefix("MONOTONIC_USEC="))
        process.send(signal: SIGTERM)
        try await expectNotification("STOPPING=1")
        #expect(try await process.end(within: .seconds(20)) == .exited(0))
    }

    @Test("SIGHUP with a regular expression in a probe keeps the services, and logs the replacement")
    func regularExpression() async throws {
        func services(limit: Int, expect: String) -> String {
            "services: { catalog: { limits: [ { limit: \(limit), per: 1h } ], "
                + "probe: { url: 'http://127.0.0.1:1', expect: { \(expect) } } } }"
        }
        try await SidecarProcess.withSidecar(configuration: services(limit: 3, expect: "body: ok")) { sidecar in
            let changed = services(limit: 7, expect: "body_matches: ok") + "\n"
            try Data("redis: { timeout: 10s }\n\(changed)".utf8).write(to: URL(filePath: "\(sidecar.folder)/interlock.yaml"))
            sidecar.process.send(signal: SIGHUP)
            try await eventually(within: .seconds(10), "the reload is rejected") {
                sidecar.process.errors.contains("event=configuration.refused")
            }
            #expect(
                sidecar.process.errors.contains(
                    "services.catalog.probe.expect.body_matches: regular expressions are no longer supported; write body: TEXT"))
            let limitResponse = try await sidecar.get("/v1/limits/catalog")
            #expect(limitResponse.contains(#""remaining":3"#), "\(limitResponse)")
        }
    }

    @Test("The error for a listener that cannot open is readable and names the setting")
    func listenerErrorNamesItsSetting() async throws {
        try await RedisServer.withServer { server in
            let occupied = "127.0.0.1:\(try #require(server.port))"
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let keys = "auth: { keys: [{ name: ops, role: admin, key: secret }] }\nlisten: { allow_plaintext: true }\n"
            let file = "\(folder.path)/interlock.yaml"
            try Data(keys.utf8).write(to: URL(filePath: file))
            let cases: [(words: [String], line: String)] = [
                (["--resp", occupied], "listen.resp \(occupied): the port is in use"),
                (["--http", occupied], "listen.http \(occupied): the port is in use"),
                (["--resp", "192.0.2.1:7379"], "listen.resp 192.0.2.1:7379: this host has no such address"),
                (["--http", "192.0.2.1:7380"], "listen.http 192.0.2.1:7380: this host has no such address"),
                (["--resp", "nowhere.invalid:7379"], "listen.resp nowhere.invalid:7379: cannot resolve nowhere.invalid"),
                (["--http", "nowhere.invalid:7380"], "listen.http nowhere.invalid:7380: cannot resolve nowhere.invalid"),
                (
                    ["--unix", "\(folder.path)/none/a.sock"],
                    "listen.unix \(folder.path)/none/a.sock: no such file or directory"
                ),
            ]
            for (words, line) in cases {
                let free = [("--resp", "127.0.0.1:0"), ("--http", "127.0.0.1:0")].filter { !words.contains($0.0) }
                let outcome = try await InterlockProcess.outcome(
                    ["serve", "--config", file, "--redis", "redis://127.0.0.1:1"] + words + free.flatMap { [$0.0, $0.1] })
                #expect(outcome.status == .exited(69), "\(words)")
                #expect(outcome.errors.contains(line), "\(words): \(outcome.errors)")
                #expect(outcome.errors.contains("event=sidecar.failed"), "\(words)")
                for dump in ["descriptor", "errno", "NIO", "SocketAddress", "UnknownHost"] {
                    #expect(!outcome.errors.contains(dump), "\(dump): \(outcome.errors)")
                }
            }
        }
    }

    @Test(
        "The Unix socket has the configured permissions and group",
        arguments: [
            ([], 0o600), (["--unix-mode", "0666"], 0o666), (["--unix-group", "\(getegid())"], 0o660),
            (["--unix-group", "\(getegid())", "--unix-mode", "620"], 0o620),
        ] as [([String], mode_t)])
    func unixSocket(words: [String], mode: mode_t) async throws {
        try await SidecarProcess.withSidecar(arguments: words) { sidecar in
            var status = stat()
            try #require(stat("\(sidecar.folder)/interlock.sock", &status) == 0)
            #expect(status.st_mode & 0o7777 == mode)
            #expect(status.st_gid == getegid())
            #expect(access("\(sidecar.folder)/interlock.sock.new", F_OK) != 0)
            let outcome = try await sidecar.interlock("status", "--live", "--sidecar", sidecar.unixAddress)
            #expect(outcome.status == .exited(0))
        }
    }

    @Test("A file that is not a socket stays unchanged, and the error names an unknown group")
    func unixSocketRefused() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        try Data("precious".utf8).write(to: URL(filePath: "\(folder.path)/file"))
        let words = ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1", "--unix"]
        let existing = try await InterlockProcess.outcome(words + ["\(folder.path)/file"])
        #expect(existing.status == .exited(69))
        #expect(existing.errors.contains("listen.unix \(folder.path)/file: the file exists and is not a socket"))
        #expect(try String(decoding: Data(contentsOf: URL(filePath: "\(folder.path)/file")), as: UTF8.self) == "precious")
        let group = try await InterlockProcess.outcome(words + ["\(folder.path)/a.sock", "--unix-group", "no such group"])
        #expect(group.status == .exited(64))
        #expect(group.errors.contains("--unix-group"))
    }

    @Test("SIGKILL leaves no redis-server behind")
    func sigkillLeavesNoRedisServerBehind() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let redis = try await sidecar.redisProcess()
            #expect(Self.isAlive(redis))
            sidecar.process.send(signal: SIGKILL)
            let status = try await sidecar.process.end(within: .seconds(10))
            #expect(status == .signaled(SIGKILL))
            try await eventually(within: .seconds(10), "redis-server is gone") { !Self.isAlive(redis) }
        }
    }

    @Test("A second sidecar with the same data directory fails with a remedy")
    func dataDirectory() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let arguments = SidecarProcess.serveArguments(file: "\(sidecar.folder)/interlock.yaml", folder: sidecar.folder)
            let second = try await InterlockProcess.outcome(arguments)
            #expect(second.status == .exited(69))
            #expect(second.output.isEmpty)
            #expect(second.errors.contains("another sidecar uses the data directory \(sidecar.dataFolder)"))
            #expect(second.errors.contains("--redis unix://"))
            let first = try await sidecar.interlock("status")
            #expect(first.status == .exited(0))
        }
    }

    /// Whether the process is running. A process that has ended but was not reaped is not.
    private static func isAlive(_ pid: pid_t) -> Bool {
        guard let file = fopen("/proc/\(pid)/stat", "r") else { return false }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        guard fgets(&line, Int32(line.count), file) != nil else { return false }
        let statusLine = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The state is the letter after the name, which is in parentheses and may contain some itself.
        let state = statusLine[(statusLine.lastIndex(of: ")") ?? statusLine.startIndex)...].dropFirst(2).first
        return state != "Z" && state != "X"
    }
}
