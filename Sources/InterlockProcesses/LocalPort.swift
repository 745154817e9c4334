internal import Glibc
internal import NIOCore
internal import NIOPosix

/// A free TCP port of 127.0.0.1. Another process may take it first, so callers must be ready to retry.
package enum LocalPort {
    /// The ports below the ephemeral ones. An ephemeral port could belong to an outgoing connection. A client that
    /// connects to one while its server is down could even connect to itself.
    private static let portRange = 10_240..<32_768

    /// Returns a port that is free now.
    package static func unused() async throws -> Int {
        for _ in 0..<100 {
            let port = Int.random(in: portRange)
            guard let channel = try? await bound(to: port) else { continue }
            try await channel.close()
            return port
        }
        throw RedisServerError(reason: "found no free port among \(portRange) of 127.0.0.1", log: "")
    }

    /// Starts a server on a free port. Tries another port if a different process has taken it.
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
