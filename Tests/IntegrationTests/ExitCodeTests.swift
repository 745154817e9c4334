import InterlockClient
import InterlockCommandLine
import InterlockTesting
import Subprocess
import Testing

@testable import InterlockCLI

/// The exit codes that scripts rely on. The table is in `docs/reference/command-line.md`.
@Suite("Exit codes", .serialized, .timeLimit(.minutes(2)))
struct ExitCodeTests {
    private static let keys = """
        auth:
          keys:
            - { name: ops, key: "key-of-the-operators", role: admin }
            - { name: web, key: "key-of-the-web-shop", role: use }
        """

    private static let invalid = [
        ["lock", "acquire", "orders", "--ttl", "2h"], ["lock", "acquire", "orders", "--ttl", "1ms"], ["lock", "acquire", "a b"],
        ["lock", "show", "a b"], ["lock", "acquire", "orders", "--label", "a b"], ["limit", "take", "absent"],
        ["limit", "show", "absent"], ["breaker", "show", "absent"], ["events", "--prefix", "other:"],
    ]

    @Test("A command exits with 65 if the sidecar rejects its request as invalid")
    func invalidRequestExitsWith65() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            for words in Self.invalid {
                let outcome = try await InterlockProcess.outcome(words, environment: sidecar.environment())
                #expect(outcome.status == .exited(65), "\(words): \(outcome)")
                #expect(outcome.output.isEmpty)
                #expect(outcome.errors.hasPrefix("interlock: "))
            }
            let run = try await sidecar.interlock("run", "--lock", "orders", "--ttl", "2h", "--", "echo", "ran")
            #expect(run.status == .exited(65))
            #expect(run.output.isEmpty)
        }
    }

    @Test("A command exits with 1 if a lock is held, lost or missing, or if a limit is reached")
    func refusedCommandExitsWith1() async throws {
        let limit = "services: { catalog: { limits: [ { limit: 1, per: 1h } ] } }"
        try await SidecarProcess.withSidecar(configuration: limit) { sidecar in
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            _ = try await sidecar.interlock("limit", "take", "catalog")
            let token = "nobody/0123456789abcdef0123456789abcdef"
            for words in [
                ["lock", "acquire", "orders"], ["lock", "renew", "orders", token], ["lock", "release", "orders", token],
                ["lock", "show", "absent"], ["lock", "break", "absent"], ["limit", "take", "catalog"],
            ] {
                let outcome = try await InterlockProcess.outcome(words, environment: sidecar.environment())
                #expect(outcome.status == .exited(1), "\(words): \(outcome)")
            }
        }
    }

    @Test("A command exits with 77 if its key is missing, is wrong or lacks the required role")
    func deniedCommandExitsWith77() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.keys) { sidecar in
            let none = try await sidecar.interlock("lock", "acquire", "orders")
            #expect(none.status == .exited(77))
            let wrong = try await sidecar.interlock("lock", "acquire", "orders", apiKey: "key-of-nobody")
            #expect(wrong.status == .exited(77))
            let role = try await sidecar.interlock("lock", "break", "orders", apiKey: "key-of-the-web-shop")
            #expect(role.status == .exited(77))
            let run = try await sidecar.interlock("run", "--lock", "orders", "--", "echo", "ran")
            #expect(run.status == .exited(77))
            #expect(run.output.isEmpty)
        }
    }

    @Test("A command exits with 77 if it sends a key to a sidecar without keys")
    func needlessKey() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let outcome = try await sidecar.interlock("lock", "show", "orders", apiKey: "key-of-nobody")
            #expect(outcome.status == .exited(77))
            #expect(outcome.errors.contains("has no API keys: unset INTERLOCK_API_KEY"), "\(outcome.errors)")
        }
    }

    @Test("A command exits with 69 if other software answers")
    func notSidecar() async throws {
        for reply in ["-ERR unknown command 'LOCK.INFO'\r\n", "$5\r\nhello\r\n"] {
            try await MisbehavingRedis.withServer(script: { _ in .text(reply) }) { peer in
                let outcome = try await InterlockProcess.outcome(["lock", "show", "a", "--sidecar", "127.0.0.1:\(peer.port)"])
                #expect(outcome.status == .exited(69))
            }
        }
    }

    @Test("INTERLOCK_EXIT_CODES=1 restores the former codes")
    func exitCodesVariableRestoresFormerCodes() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.keys) { sidecar in
            func status(_ words: [String], key: String?) async throws -> TerminationStatus {
                let environment = sidecar.environment(apiKey: key).updating(["INTERLOCK_EXIT_CODES": "1"])
                return try await InterlockProcess.outcome(words, environment: environment).status
            }
            let key = "key-of-the-web-shop"
            let tooLong = try await status(["lock", "acquire", "orders", "--ttl", "2h"], key: key)
            #expect(tooLong == .exited(1))
            #expect(try await status(["lock", "acquire", "orders"], key: nil) == .exited(1))
            #expect(try await status(["lock", "break", "orders"], key: key) == .exited(1))
            #expect(try await status(["lock", "acquire"], key: key) == .exited(64))
            #expect(try await status(["run", "--lock", "a", "--ttl", "2h", "--", "true"], key: key) == .exited(69))
            #expect(try await status(["run", "--lock", "a", "--", "true"], key: nil) == .exited(69))
            let notSidecar = try await status(["lock", "show", "a", "--sidecar", "127.0.0.1:\(sidecar.httpPort)"], key: key)
            #expect(notSidecar == .exited(69))
        }
    }

    @Test("Only refusals have a different former code")
    func formerCodes() {
        for status in ExitStatus.allCases {
            switch status {
            case .invalid, .denied, .versionMismatch:
                #expect(status.formerCode(isRunCommand: false) == 1)
                #expect(status.formerCode(isRunCommand: true) == 69)
            default:
                #expect(status.formerCode(isRunCommand: false) == status.code)
                #expect(status.formerCode(isRunCommand: true) == status.code)
            }
        }
    }
}
