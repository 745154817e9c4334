import FoundationEssentials
import Glibc
import InterlockProcesses
import RedisClient
import Subprocess
import Testing

/// The connections of a sidecar and the command line to Redis and to each other.
@Suite("Passwords, certificates and addresses of Redis and sidecars", .serialized, .timeLimit(.minutes(2)))
struct RedisAccessTests {
    private static let key = "ops-of-32-letters-and-more-than-that"

    @Test("A new password in redis.password_file is used after SIGHUP")
    func passwordFile() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "first"]) { server in
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let file = "\(folder.path)/password"
            try Data("first\n".utf8).write(to: URL(filePath: file))
            let configuration = "redis: { url: \"unix://\(server.socketPath)\", password_file: \"\(file)\", timeout: 2s }"
            try await Self.withSidecar(configuration) { sidecar in
                _ = try await server.ask(["CONFIG", "SET", "requirepass", "second"])
                try Data("second\n".utf8).write(to: URL(filePath: file))
                sidecar.process.send(signal: SIGHUP)
                try await eventually(within: .seconds(10), "the configuration was reloaded") {
                    sidecar.process.errors.contains("services.reloaded")
                }
                var second = server.configuration
                second.password = "second"
                // Open connections stay; new ones use the password that the file has now.
                _ = try await RedisClient.ask(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"], at: second)
                _ = try await RedisClient.ask(["CLIENT", "KILL", "TYPE", "pubsub"], at: second)
                try await eventually(within: .seconds(10), "all three connections are re-established") {
                    let list = try await RedisClient.ask(["CLIENT", "LIST"], at: second).text ?? ""
                    return list.split(separator: "\n").count { $0.contains(" name=interlock/") } == 3
                }
                #expect(try await sidecar.get("/readyz").hasSuffix(" 200"))
            }
        }
    }

    @Test("A reload with a missing password file is rejected and does not change anything")
    func missingFile() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "first"]) { server in
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let file = "\(folder.path)/password"
            try Data("first\n".utf8).write(to: URL(filePath: file))
            let configuration = "redis: { url: \"unix://\(server.socketPath)\", password_file: \"\(file)\", timeout: 2s }"
            try await Self.withSidecar(configuration) { sidecar in
                try FileManager.default.removeItem(atPath: file)
                sidecar.process.send(signal: SIGHUP)
                try await eventually(within: .seconds(10), "the reload is rejected") {
                    sidecar.process.errors.contains("redis.password_file \(file): there is no such file")
                }
            }
        }
    }

    @Test(
        "A new authority in redis.tls.ca is used after SIGHUP",
        .enabled("this redis-server speaks TLS") { try await RedisProgram.current.speaksTLS })
    func newAuthorityIsUsedAfterReload() async throws {
        try await RedisServer.withServer(listener: .tls) { server in
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let first = try #require(server.certificate)
            mkdir("\(folder.path)/second", 0o700)
            let second = try await TestCertificate.selfSigned(in: "\(folder.path)/second")
            let file = "\(folder.path)/ca.pem"
            try FileManager.default.copyItem(atPath: first.certificatePath, toPath: file)
            let url = "rediss://localhost:\(try #require(server.port))"
            let configuration = "redis: { url: \"\(url)\", tls: { ca: \"\(file)\" }, timeout: 2s }"
            try await Self.withSidecar(configuration) { sidecar in
                _ = try await server.ask([
                    "CONFIG", "SET", "tls-cert-file", second.certificatePath, "tls-key-file", second.keyPath,
                ])
                try Data(contentsOf: URL(filePath: second.certificatePath)).write(to: URL(filePath: file))
                sidecar.process.send(signal: SIGHUP)
                try await eventually(within: .seconds(10), "the configuration was reloaded") {
                    sidecar.process.errors.contains("services.reloaded")
                }
                _ = try await server.ask(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                try await eventually(within: .seconds(10), "Redis is connected") {
                    let list = try await server.ask(["CLIENT", "LIST"]).text ?? ""
                    return list.split(separator: "\n").count { $0.contains(" name=interlock/") } == 3
                }
            }
        }
    }

    @Test("A sidecar's address may be a URL, and an error never reveals its key")
    func sidecarURL() async throws {
        let configuration = "auth: { keys: [ { name: ops, key: \(Self.key), role: admin } ] }"
        try await SidecarProcess.withSidecar(configuration: configuration) { sidecar in
            let environment = InterlockProcess.environment
            func status(_ address: String, inVariable variable: Bool) async throws -> CommandOutcome {
                try await InterlockProcess.outcome(
                    variable ? ["status"] : ["status", "--sidecar", address],
                    environment: environment.updating([
                        "INTERLOCK_SIDECAR": variable ? address : nil, "INTERLOCK_API_KEY": Self.key,
                    ]))
            }
            for isInVariable in [false, true] {
                let plain = try await status("redis://\(sidecar.address)", inVariable: isInVariable)
                #expect(plain.status == .exited(0), "\(plain.errors)")
                for address in [
                    "redis://:SECRET@\(sidecar.address)", "rediss://u:p@SECRET/x@\(sidecar.address)", "SECRET@\(sidecar.address)",
                    "http://u:SECRET@\(sidecar.address)",
                ] {
                    let refusal = try await status(address, inVariable: isInVariable)
                    #expect(refusal.status == .exited(64), "\(address): \(refusal.errors)")
                    #expect(!refusal.errors.contains("SECRET"), "\(refusal.errors)")
                    #expect(!refusal.output.contains("SECRET"), "\(refusal.output)")
                }
                let withKey = try await status("redis://:SECRET@\(sidecar.address)", inVariable: isInVariable)
                #expect(withKey.errors.contains("INTERLOCK_API_KEY"), "\(withKey.errors)")
            }
        }
    }

    @Test("With a Redis server that renames EVALSHA, /readyz is not 200, the metric is 0, and the log says why")
    func renamedCommand() async throws {
        try await RedisServer.withServer(arguments: ["--rename-command", "EVALSHA", "RUN"]) { server in
            let configuration = "redis: { url: \"unix://\(server.socketPath)\", timeout: 500ms }"
            try await Self.withSidecar(configuration) { sidecar in
                try await eventually(within: .seconds(10), "the log names the reason") {
                    sidecar.process.errors.contains("cannot run scripts")
                }
                let metrics = try await sidecar.get("/metrics")
                #expect(metrics.contains("interlock_redis_connected 0"))
                #expect(try await sidecar.get("/readyz").hasSuffix(" 503"))
            }
        }
    }

    /// Runs `body` with a sidecar whose Redis may be down. Waits only for its listeners.
    private static func withSidecar(_ configuration: String, _ body: (RunningSidecar) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/interlock.yaml"
        try Data(configuration.utf8).write(to: URL(filePath: file))
        try await LocalPort.withUnused { port in
            let process = try await InterlockProcess.start([
                "serve", "--config", file, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:\(port)", "--data-dir", folder.path,
            ])
            let sidecar = RunningSidecar(process: process, port: port)
            let result: Result<Void, any Error>
            do {
                try await eventually(within: .seconds(30), "the sidecar listens") {
                    try await sidecar.get("/healthz").hasSuffix(" 200")
                }
                try await body(sidecar)
                result = .success(())
            } catch {
                print("The test failed with \(error). Output of the sidecar:\n\(process.output)\n\(process.errors)")
                result = .failure(error)
            }
            process.send(signal: SIGKILL)
            try await eventually("the sidecar has ended") { process.hasEnded }
            try result.get()
        }
    }

    private struct RunningSidecar {
        let process: InterlockProcess
        let port: Int

        /// Returns the body and the status of the HTTP API's response.
        func get(_ path: String) async throws -> String {
            let result = try await run(
                .name("curl"),
                arguments: ["--silent", "--max-time", "10", "--write-out", " %{http_code}", "http://127.0.0.1:\(port)\(path)"],
                output: .string(limit: 1 << 20), error: .discarded)
            return result.standardOutput
        }
    }
}
