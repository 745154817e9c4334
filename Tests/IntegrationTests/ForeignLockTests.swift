import Subprocess
import SystemPackage
import Testing

@Suite("Other libraries' locks", .timeLimit(.minutes(3)))
struct ForeignLockTests {
    /// The clone that these tests were built from.
    private static let root = #filePath.split(separator: "/").dropLast(3).reduce(into: "") { $0 += "/" + $1 }

    @Test("redis-py's Lock and Interlock share a key: each excludes and wakes the other, and leaves its lease alone")
    func redisPyLock() async throws {
        try await SidecarProcess.withSidecar(configuration: #"locks: { key_prefix: "" }"#) { sidecar in
            let socket = try #require(sidecar.redisSocket)
            let result = try await run(
                .path(FilePath("\(Self.root)/.venv/bin/python")),
                arguments: ["\(Self.root)/Tests/IntegrationTests/Clients/redis_py_lock.py", "\(sidecar.respPort)", socket],
                output: .string(limit: 1 << 20), error: .string(limit: 1 << 20))
            // What it measured, or why it failed.
            print(result.standardError)
            #expect(result.standardOutput == "fine\n", "is .venv there? `make setup` makes it. \(result.standardError)")
        }
    }
}
