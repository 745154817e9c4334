import InterlockProcesses
import Subprocess
import SystemPackage
import Testing

@Suite("Third-party clients")
struct ThirdPartyClientTests {
    /// The repository that these tests were built from.
    private static let root = #filePath.split(separator: "/").dropLast(3).reduce(into: "") { $0 += "/" + $1 }

    @Test(
        "redis-py works with RESP2, RESP3 and its default, and its locks and Interlock's exclude each other",
        arguments: ["5.2.1", "8.1.0"])
    func redisPy(version: String) async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let socket = try #require(sidecar.redisSocket)
            // The older version is installed in the virtual environment; the newer one is in a directory that takes
            // precedence.
            let result = try await run(
                .path(FilePath("\(Self.root)/.venv/bin/python")),
                arguments: [
                    "\(Self.root)/Tests/IntegrationTests/Clients/redis_py.py", "\(sidecar.respPort)", socket, version,
                ],
                environment: .inherit.updating(["PYTHONPATH": "\(Self.root)/.venv/apart/redis==\(version)"]),
                output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
            #expect(result.standardOutput == "fine\n", "is .venv missing? `make setup` creates it. \(result.standardError)")
        }
    }

    @Test("All four kinds of gRPC calls, HTTP/2 and WebSockets pass the proxy with third-party clients and servers")
    func thirdPartyProtocolsPassProxy() async throws {
        let (grpc, webSocket) = (try await LocalPort.unused(), try await LocalPort.unused())
        let configuration = """
            services:
              shop: { url: "http://127.0.0.1:\(grpc)", http2: true }
              narrow: { url: "http://127.0.0.1:\(grpc)", http2: true, limits: [ { limit: 1, per: 1m } ] }
              frail: { url: "http://127.0.0.1:\(grpc)", http2: true, breaker: { minimum_calls: 3 } }
              chat: { url: "http://127.0.0.1:\(webSocket)" }
            """
        try await SidecarProcess.withSidecar(configuration: configuration) { sidecar in
            let result = try await run(
                .path(FilePath("\(Self.root)/.venv/bin/python")),
                arguments: [
                    "\(Self.root)/Tests/IntegrationTests/Clients/streams.py", "\(sidecar.httpPort)", "\(grpc)",
                    "\(webSocket)",
                ], output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
            #expect(result.standardOutput == "fine\n", "is .venv missing? `make setup` creates it. \(result.standardError)")
        }
    }

    @Test("redis-cli reads a lock, a limit and a breaker through the sidecar, and their keys in Redis")
    func redisCLI() async throws {
        let configuration = """
            services:
              catalog: { limits: [ { limit: 10, per: 1m } ], on_limit: { action: trip } }
            """
        try await SidecarProcess.withSidecar(configuration: configuration) { sidecar in
            let socket = try #require(sidecar.redisSocket)
            func api(_ words: String...) async throws -> String {
                try await Self.redisCLI(["-p", "\(sidecar.respPort)"] + words)
            }
            func redis(_ words: String...) async throws -> String { try await Self.redisCLI(["-s", socket] + words) }
            #expect(try await api("LOCK.ACQUIRE", "orders", "30000", "LABEL", "web-1").hasPrefix("web-1/"))
            #expect(try await redis("GET", "interlock:lock:{orders}").hasPrefix("web-1/"))
            for _ in 0..<11 { _ = try await api("LIMIT.TAKE", "catalog") }
            #expect(try await redis("GET", "interlock:rate:{catalog}:1m") == "10\n")
            #expect(try await redis("HGET", "interlock:breaker:{catalog}", "cause") == "limit\n")
            #expect(try await redis("XRANGE", "interlock:breaker:{catalog}:history", "-", "+").contains("from\nclosed\nto\nopen"))
            #expect(try await redis("ZCARD", "interlock:fleet") == "1\n")
        }
    }

    private static func redisCLI(_ words: [String]) async throws -> String {
        let result = try await run(.name("redis-cli"), arguments: Arguments(words), output: .string(limit: 1 << 20))
        return result.standardOutput
    }
}

@Suite("Locks of other libraries", .timeLimit(.minutes(3)))
struct OtherSoftwareLockTests {
    /// The repository that these tests were built from.
    private static let root = #filePath.split(separator: "/").dropLast(3).reduce(into: "") { $0 += "/" + $1 }

    @Test("redis-py's Lock and Interlock share a key: each excludes and wakes the other, and neither changes the other's lease")
    func redisPyAndInterlockExcludeEachOther() async throws {
        try await SidecarProcess.withSidecar(configuration: #"locks: { key_prefix: "" }"#) { sidecar in
            let socket = try #require(sidecar.redisSocket)
            let result = try await run(
                .path(FilePath("\(Self.root)/.venv/bin/python")),
                arguments: ["\(Self.root)/Tests/IntegrationTests/Clients/redis_py_lock.py", "\(sidecar.respPort)", socket],
                output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
            // The script writes its measurements, or the reason why it failed, to standard error.
            print(result.standardError)
            #expect(result.standardOutput == "fine\n", "is .venv missing? `make setup` creates it. \(result.standardError)")
        }
    }
}
