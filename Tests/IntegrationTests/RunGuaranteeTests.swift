import FoundationEssentials
import Glibc
import InterlockProcesses
import Subprocess
import Testing

/// Before the job starts, `interlock run` rejects options that it could not honor afterwards.
@Suite("Guarantees of `interlock run`", .serialized, .timeLimit(.minutes(2)))
struct RunGuaranteeTests {
    private struct Lock: Decodable {
        var ttlMs: Int
    }

    @Test("--at-least above locks.max_ttl is rejected before the job starts")
    func atLeastAboveMaximum() async throws {
        try await SidecarProcess.withSidecar(configuration: "locks: { max_ttl: 1h }") { sidecar in
            let outcome = try await sidecar.interlock("run", "--lock", "orders", "--at-least", "2h", "--", "echo", "ran")
            #expect(outcome.status == .exited(65))
            #expect(outcome.output.isEmpty)
            #expect(outcome.errors.contains("--at-least 2h"))
            #expect(outcome.errors.contains("locks.max_ttl"))
            #expect(try await sidecar.interlock("lock", "show", "orders").status == .exited(1))
        }
    }

    @Test("A remainder of --at-least below locks.min_ttl is held for that minimum")
    func shortRemainder() async throws {
        try await SidecarProcess.withSidecar(configuration: "locks: { min_ttl: 20s }") { sidecar in
            let outcome = try await sidecar.interlock(
                "run", "--lock", "orders", "--at-least", "10s", "--", "echo", "ran")
            #expect(outcome.status == .exited(0))
            #expect(!outcome.errors.contains("may expire"), "\(outcome.errors)")
            #expect(try await sidecar.interlock("lock", "show", "orders", "--json").decoded(Lock.self).ttlMs > 1000)
        }
    }

    @Test("The renewal for --at-least is repeated while Redis does not answer")
    func atLeastThroughPause() async throws {
        try await RedisServer.withServer(listener: .none) { server in
            try await SidecarProcess.withSidecar(
                arguments: ["--redis", "unix://\(server.socketPath)"], redisTimeout: "300ms"
            ) { sidecar in
                let outcome = try await sidecar.interlock(
                    "run", "--lock", "orders", "--ttl", "20s", "--at-least", "10m", "--",
                    "redis-cli", "-s", server.socketPath, "CLIENT", "PAUSE", "2500")
                #expect(outcome.status == .exited(0))
                #expect(!outcome.errors.contains("may expire"), "\(outcome.errors)")
                #expect(try await sidecar.interlock("lock", "show", "orders", "--json").decoded(Lock.self).ttlMs > 300_000)
            }
        }
    }

    @Test("A held lock is reported with its holder and remaining time, and without advice to wait")
    func heldMessage() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let first = try await sidecar.interlock(
                "run", "--lock", "orders", "--label", "web-1", "--at-least", "10m", "--", "true")
            #expect(first.status == .exited(0))
            let second = try await sidecar.interlock("run", "--lock", "orders", "--", "echo", "ran")
            #expect(second.status == .exited(75))
            #expect(second.errors.hasPrefix("interlock: the lock orders is held by web-1 for another 9m 5"), "\(second.errors)")
            #expect(second.errors.contains("nothing was run"))
            #expect(!second.errors.contains("--wait"))
        }
    }

    // MARK: A private Redis

    private static let warning = "private Redis: this host only"

    @Test("`status`, the HTTP API, `top` and `run` mark a private Redis as local to this host")
    func embeddedRedis() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            #expect(try await sidecar.interlock("status").output.contains(Self.warning))
            #expect(try await sidecar.interlock("status", "--json").output.contains(#""scope":"host""#))
            #expect(try await sidecar.get("/v1/redis").contains(#""scope":"host""#))
            #expect(try await sidecar.interlock("top", "--once").output.contains(Self.warning))
            #expect(try await sidecar.get("/v1/live?view=services").contains(#""scope":"host""#))
            let job = try await sidecar.interlock("run", "--lock", "orders", "--", "echo", "ran")
            #expect(job.output == "ran\n")
            #expect(job.errors.contains("does not exclude other hosts, because the sidecar uses a private Redis"))
        }
    }

    @Test("A Redis server at a loopback address is marked as loopback, and other hosts need another address")
    func loopbackRedis() async throws {
        try await RedisServer.withServer { server in
            let port = try #require(server.port)
            try await SidecarProcess.withSidecar(arguments: ["--redis", "redis://127.0.0.1:\(port)"]) { sidecar in
                let status = try await sidecar.interlock("status")
                #expect(!status.output.contains(Self.warning))
                #expect(status.output.contains("loopback address"))
                #expect(try await sidecar.get("/v1/redis").contains(#""scope":"loopback""#))
            }
        }
    }
}
