internal import Glibc
internal import NIOCore
internal import NIOPosix

/// A free TCP port of 127.0.0.1. Another process may take it first, so callers must be ready to retry.
package enum LocalPort {
    /// The ports below the ephemeral ones. An ephemeral port could belong to an outgoing connection, and a client that
    /// connects to it while its server is down could even connect to itself.
    private static let candidates = 10_240..<32_768

    package static func unused() async throws -> Int {
        for _ in 0..<100 {
            let port = Int.random(in: candidates)
            guard let channel = try? await bound(to: port) else { continue }
            try await channel.close()
            return port
        }
        throw RedisServerError(reason: "found no free port among \(candidates) of 127.0.0.1", log: "")
    }

    /// Starts a server on a free port. Retries with another port if the port was taken meanwhile.
    /// - Throws: the error of `start`, which must be a `RedisServerError` with the server's log if the port was taken.
    package static func withUnused<Server: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ start: (Int) async throws -> Server
    ) async throws -> Server {
        var attemptsLeft = 5
        while true {
            do {
                return try await start(try await unused())
            } catch let error as RedisServerError where attemptsLeft > 1 && error.log.contains("Address already in use") {
                attemptsLeft -= 1
            }
        }
    }

    private static func bound(to port: Int) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: port).get()
    }
}
