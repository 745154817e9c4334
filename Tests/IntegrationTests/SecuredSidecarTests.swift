import FoundationEssentials
import Glibc
import InterlockProcesses
import NIOSSL
import RedisClient
import Subprocess
import Testing

/// Certificates and API keys, from the start of a sidecar to their replacement.
@Suite("A sidecar with TLS and API keys", .serialized, .timeLimit(.minutes(2)))
struct SecuredSidecarTests {
    /// Two certificates and a directory for a test's own files.
    private struct Files {
        let folder: TemporaryFolder
        let first: TestCertificate
        let second: TestCertificate

        func configuration(_ certificate: TestCertificate, keys: [String], extra: String = "") -> String {
            configuration(certificate.certificatePath, certificate.keyPath, keys: keys, extra: extra)
        }

        /// Returns the configuration of a sidecar with a certificate and API keys of these names.
        func configuration(_ certificate: String, _ key: String, keys: [String], extra: String = "") -> String {
            """
            listen: { tls: { certificate: "\(certificate)", key: "\(key)" } }
            auth: { keys: [ \(keys.map { "{ name: \($0), key: \($0)-of-32-letters-and-more-than-that, role: admin }" }.joined(separator: ", ")) ] }
            \(extra)
            """
        }
    }

    private static func key(_ name: String) -> String { "\(name)-of-32-letters-and-more-than-that" }

    private static func withFiles(_ body: (Files) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        var certificates: [TestCertificate] = []
        for name in ["first", "second"] {
            let directory = "\(folder.path)/\(name)"
            mkdir(directory, 0o700)
            certificates.append(try await TestCertificate.selfSigned(in: directory))
        }
        try await body(Files(folder: folder, first: certificates[0], second: certificates[1]))
    }

    /// Returns a client that trusts one certificate.
    private static func client(of sidecar: SidecarProcess, trusting certificate: TestCertificate, key: String) throws
        -> RedisClient
    {
        var configuration = RedisConfiguration(address: .host("127.0.0.1", port: sidecar.respPort))
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(certificate.certificatePath))
        configuration.tls = tls
        configuration.password = key
        configuration.connectTimeout = .seconds(10)
        return RedisClient(configuration: configuration)
    }

    @Test("The command line uses TLS with a sidecar, and sends another host no key without it")
    func commandLine() async throws {
        try await Self.withFiles { files in
            try await SidecarProcess.withSidecar(configuration: files.configuration(files.first, keys: ["ops"])) { sidecar in
                let address = "rediss://\(sidecar.address)"
                func status(_ words: String...) async throws -> CommandOutcome {
                    try await InterlockProcess.outcome(
                        ["status"] + words,
                        environment: sidecar.environment(apiKey: Self.key("ops")).updating(["INTERLOCK_SIDECAR": nil]))
                }
                let trusted = try await status("--sidecar", address, "--ca", files.first.certificatePath)
                #expect(trusted.status == .exited(0), "\(trusted.errors)")
                let untrusted = try await status("--sidecar", address, "--ca", files.second.certificatePath)
                #expect(untrusted.status == .exited(69))
                #expect(untrusted.errors.contains("not signed by a trusted authority"))
                #expect(untrusted.errors.contains("--ca"))
                let plain = try await status("--sidecar", sidecar.address)
                #expect(plain.status == .exited(69))
                #expect(plain.errors.contains("requires TLS; use \(address)"), "\(plain.errors)")
                let garbage = try await status("--sidecar", address, "--ca", files.first.keyPath)
                #expect(garbage.status == .exited(64))
                // The address is outside this host: the command must fail without connecting.
                let open = try await status("--sidecar", "192.0.2.1:7379")
                #expect(open.status == .exited(64))
                #expect(open.errors.contains("rediss://192.0.2.1:7379"))
            }
        }
    }

    @Test("SIGHUP changes keys and certificate, ends sessions of removed keys, and names unapplied settings")
    func reload() async throws {
        try await Self.withFiles { files in
            try await SidecarProcess.withSidecar(configuration: files.configuration(files.first, keys: ["ops", "old"])) {
                sidecar in
                let file = URL(filePath: "\(sidecar.folder)/interlock.yaml")
                func reload(_ text: String, logs sentence: String) async throws {
                    try Data("redis: { timeout: 10s }\n\(text)".utf8).write(to: file)
                    sidecar.process.send(signal: SIGHUP)
                    try await eventually(within: .seconds(10), "the output contains: \(sentence)") {
                        sidecar.process.errors.contains(sentence)
                    }
                }
                let staying = try Self.client(of: sidecar, trusting: files.first, key: Self.key("ops"))
                try await staying.connect()
                let leaving = try Self.client(of: sidecar, trusting: files.first, key: Self.key("old"))
                try await leaving.connect()

                // The removed key has an event stream and a wait in progress, which would otherwise continue.
                _ = try await staying.send(AnyCommand(["LOCK.ACQUIRE", "held", "60000"]))
                let waiting = Task {
                    try? await leaving.send(
                        AnyCommand(["LOCK.ACQUIRE", "held", "60000", "WAIT", "50000"]), timeout: .seconds(60))
                }
                let stream = Task {
                    try await run(
                        .name("curl"),
                        arguments: [
                            "--silent", "--insecure", "--no-buffer", "--max-time", "60", "-H", "X-Api-Key: \(Self.key("old"))",
                            "https://127.0.0.1:\(sidecar.httpPort)/v1/events",
                        ], output: .string(limit: 1 << 16), error: .discarded
                    ).terminationStatus
                }
                try await eventually(within: .seconds(10), "the call waits") {
                    try await staying.send(AnyCommand(["LOCK.INFO", "held"])).array?.contains(.integer(1)) == true
                }

                // An unusable certificate does not change anything.
                try Data("no certificate".utf8).write(to: URL(filePath: files.second.certificatePath + ".bad"))
                try await reload(
                    files.configuration(files.second.certificatePath + ".bad", files.second.keyPath, keys: ["new"]),
                    logs: "Configuration reload failed")

                try await reload(
                    files.configuration(files.second, keys: ["ops", "new"], extra: "locks: { max_ttl: 7m }"),
                    logs: "not_applied=locks")
                _ = try await staying.send(Ping())
                #expect(await waiting.value == nil)
                #expect(try await stream.value.isSuccess)
                let refusedClient = try Self.client(of: sidecar, trusting: files.second, key: Self.key("old"))
                let error = await #expect(throws: RedisError.self) { try await refusedClient.connect() }
                #expect(error?.code == .server(.wrongPassword))
                let new = try Self.client(of: sidecar, trusting: files.second, key: Self.key("new"))
                try await new.connect()
                for client in [staying, leaving, refusedClient, new] { await client.close() }
            }
        }
    }

    @Test("`check-config` rejects an invalid certificate, and a key of another certificate")
    func checkConfigRejectsInvalidCertificate() async throws {
        try await Self.withFiles { files in
            let file = "\(files.folder.path)/interlock.yaml"
            try Data("garbage".utf8).write(to: URL(filePath: files.second.certificatePath))
            try Data(files.configuration(files.second, keys: ["ops"]).utf8).write(to: URL(filePath: file))
            let verdict = try await InterlockProcess.outcome(["check-config", file])
            #expect(verdict.status == .exited(1))
            #expect(verdict.errors.contains("interlock.yaml:1: listen.tls: expected a PEM certificate and its private key in"))
            try Data(files.configuration(files.first.certificatePath, files.second.keyPath, keys: ["ops"]).utf8).write(
                to: URL(filePath: file))
            let mixed = try await InterlockProcess.outcome(["check-config", file])
            #expect(mixed.status == .exited(1))
        }
    }

    @Test("SIGHUP with an empty or truncated file is rejected, and keys and services stay")
    func emptyFile() async throws {
        try await Self.withFiles { files in
            let services = "services: { catalog: { limits: [ { limit: 5, per: 1m } ] } }"
            let complete = files.configuration(files.first, keys: ["ops"], extra: services)
            try await SidecarProcess.withSidecar(configuration: complete) { sidecar in
                let file = URL(filePath: "\(sidecar.folder)/interlock.yaml")
                for (number, text) in ["", "redis: { timeout: 10s }\n"].enumerated() {
                    try Data(text.utf8).write(to: file)
                    sidecar.process.send(signal: SIGHUP)
                    try await eventually(within: .seconds(10), "the reload is rejected") {
                        sidecar.process.errors.ranges(of: "event=configuration.refused").count == number + 1
                    }
                }
                #expect(sidecar.process.errors.contains("reload: auth.keys: expected at least one key"))
                let stranger = try Self.client(of: sidecar, trusting: files.first, key: "wrong")
                await #expect(throws: (any Error).self) { try await stranger.connect() }
                await stranger.close()
                let client = try Self.client(of: sidecar, trusting: files.first, key: Self.key("ops"))
                try await client.connect()
                #expect(try await client.send(AnyCommand(["LIMIT.PEEK", "catalog"])).array != nil)
                // The failed handshake with a client that trusts another certificate is counted, and logged once.
                let distrustful = try Self.client(of: sidecar, trusting: files.second, key: Self.key("ops"))
                await #expect(throws: (any Error).self) { try await distrustful.connect() }
                await distrustful.close()
                try await eventually(within: .seconds(10), "the failed handshake is logged") {
                    sidecar.process.errors.contains("event=client.handshake_failed")
                }
                await client.close()
            }
        }
    }
}
