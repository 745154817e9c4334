import FoundationEssentials
import Subprocess
import Testing

@testable import InterlockProcesses

@Suite("`interlock check-config`", .serialized, .timeLimit(.minutes(1)))
struct CheckConfigTests {
    private struct Verdict: Decodable {
        struct Problem: Decodable {
            var line: Int?
            var path: String?
            var message: String
        }

        var good: Bool
        var services: Int
        var problems: [Problem]
    }

    @Test("A valid file prints one line and exits with 0")
    func validFilePrintsOneLineAndExitsWith0() async throws {
        let (outcome, file) = try await check(
            "redis: { embedded: true }\nservices: { catalog: { limits: [ { limit: 3, per: 1s } ] } }\n")
        #expect(outcome.status == .exited(0))
        #expect(outcome.output == "\(file): good, 1 service\n")
        #expect(outcome.errors.isEmpty)
    }

    @Test("Every error is a line on standard error with its location, and the exit code is 1")
    func everyErrorIsPrintedWithItsLocation() async throws {
        let (outcome, file) = try await check("redis:\n  timeout: soon\nnonsense: 1\n")
        #expect(outcome.status == .exited(1))
        #expect(outcome.output.isEmpty)
        let lines = outcome.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("\(file):2: redis.timeout: expected") == true)
        #expect(lines.last?.hasPrefix("\(file):3:") == true)
    }

    @Test("A Redis URL is parsed completely, and never printed")
    func redisURL() async throws {
        let (outcome, _) = try await check("redis: { url: \"redis://:hunter2@127.0.0.1/first\" }\n")
        #expect(outcome.status == .exited(1))
        #expect(outcome.errors.contains("redis.url"))
        #expect(!outcome.errors.contains("hunter2"))
    }

    @Test("A dash reads standard input")
    func standardInput() async throws {
        func check(_ yaml: String) async throws -> CommandOutcome {
            let command = "printf '%s' \"$1\" | \"$2\" check-config -"
            let result = try await Subprocess.run(
                .name("sh"), arguments: ["-c", command, "sh", yaml, try InterlockProcess.program()],
                environment: InterlockProcess.environment, output: .string(limit: 1 << 16), error: .string(limit: 1 << 16))
            return CommandOutcome(
                status: result.terminationStatus, output: result.standardOutput, errors: result.standardError)
        }
        let good = try await check("redis: { embedded: true }\n")
        #expect(good.status == .exited(0))
        #expect(good.output == "standard input: good, 0 services\n")
        let bad = try await check("redis: { embedded: true }\nnonsense: 1\n")
        #expect(bad.status == .exited(1))
        #expect(bad.errors.hasPrefix("standard input:2: nonsense: unknown key"))
    }

    @Test("Without secrets, files on the target host may be missing, and everything else is checked")
    func withoutSecrets() async throws {
        let yaml = """
            redis: { url_env: NOWHERE_REDIS_URL, password_file: /nowhere/password }
            listen: { tls: { certificate: /nowhere/cert.pem, key: /nowhere/key.pem }, unix: /run/a.sock, unix_group: nobodys }
            services: { catalog: { url: "https://a.example", tls: { ca: /nowhere/ca.pem } } }
            auth:
              keys:
                - { name: ops, role: admin, key_env: NOWHERE_OPS_KEY }
                - { name: web, role: use, key_file: /nowhere/web.key }

            """
        let (secret, _) = try await check(yaml)
        #expect(secret.status == .exited(1))
        let (open, file) = try await check(yaml, "--without-secrets")
        #expect(open.status == .exited(0), "\(open)")
        #expect(open.output == "\(file): good, 1 service\n")
        #expect(open.errors.isEmpty)
        let (bad, _) = try await check(yaml + "fleet_size: 0\n", "--without-secrets")
        #expect(bad.status == .exited(1))
        #expect(bad.errors.contains("fleet_size"))
        let (wrongName, _) = try await check("auth: { keys: [ { name: a, role: use, key_env: 'a b' } ] }\n", "--without-secrets")
        #expect(wrongName.status == .exited(1))
    }

    @Test("The guarantee of waiting for replicas is printed, since the file cannot show their number")
    func waitReplicas() async throws {
        let (good, file) = try await check("locks: { wait_replicas: 1 }\n")
        #expect(
            good.output == """
                \(file): good, 0 services
                locks.wait_replicas 1 preserves locks in a failover if the primary has at most 1 replica; with more, a failover can \
                promote a replica that has not received a lock

                """)
    }

    @Test("A missing file is an error")
    func missingFileIsError() async throws {
        let outcome = try await InterlockProcess.outcome(["check-config", "/nowhere/interlock.yaml"])
        #expect(outcome.status == .exited(1))
        #expect(outcome.errors.contains("there is no such file"))
    }

    @Test("`serve` prints each error on its own line, with the program's prefix")
    func errorsAtStart() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/interlock.yaml"
        try Data("redis: { embedded: true }\nfleet_size: 0\nservices: { catalog: { concurrency: 0 } }\n".utf8)
            .write(to: URL(filePath: file))
        let outcome = try await InterlockProcess.outcome(SidecarProcess.serveArguments(file: file, folder: folder.path))
        #expect(outcome.status == .exited(64))
        let lines = outcome.errors.split(separator: "\n")
        #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix("interlock: ") }, "\(outcome.errors)")
    }

    @Test("A probe's regular expression is rejected with its replacement, by `check-config` and `serve`")
    func regularExpression() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/interlock.yaml"
        let yaml = "services: { catalog: { probe: { url: 'http://a.example', expect: { body_matches: ok } } } }"
        try Data("redis: { embedded: true }\n\(yaml)\n".utf8).write(to: URL(filePath: file))
        let start = SidecarProcess.serveArguments(file: file, folder: folder.path)
        for arguments in [["check-config", file], start] {
            let outcome = try await InterlockProcess.outcome(arguments)
            #expect(outcome.status != .exited(0))
            #expect(
                outcome.errors.contains(
                    "interlock.yaml:2: services.catalog.probe.expect.body_matches: regular expressions are no longer supported; "
                        + "write body: TEXT"),
                "\(outcome.errors)")
        }
    }

    @Test("The result is JSON on request, for valid and invalid files")
    func resultIsJSONOnRequest() async throws {
        let (good, _) = try await check("", "--json")
        #expect(good.status == .exited(0))
        #expect(try good.decoded(Verdict.self).good)

        let (bad, _) = try await check("fleet_size: many\n", "--json")
        #expect(bad.status == .exited(1))
        let verdict = try bad.decoded(Verdict.self)
        #expect(!verdict.good)
        #expect(verdict.problems.first?.line == 1)
        #expect(verdict.problems.first?.path == "fleet_size")
    }

    /// Runs `check-config` on a file with this text. Returns the outcome and the file's path.
    private func check(_ yaml: String, _ arguments: String...) async throws -> (CommandOutcome, file: String) {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = "\(folder.path)/interlock.yaml"
        try Data(yaml.utf8).write(to: URL(filePath: file))
        return (try await InterlockProcess.outcome(["check-config", file] + arguments), file)
    }
}
