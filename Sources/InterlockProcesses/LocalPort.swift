internal import NIOCore
internal import NIOPosix

/// A TCP port of 127.0.0.1 that nobody listens on. Another process may take it before its user does: be ready to try again.
package enum LocalPort {
    /// Below what the kernel gives to outgoing connections. One of those could be somebody's while its server is away, and
    /// whoever tries to connect to it then could end up connected to himself.
    private static let candidates = 10_240..<32_768

    package static func unused() async throws -> Int {
        for _ in 0..<100 {
            let port = Int.random(in: candidates)
            // It is taken: so another one.
            guard let channel = try? await bound(to: port) else { continue }
            try await channel.close()
            return port
        }
        throw RedisServerError(reason: "found no free port among \(candidates) of 127.0.0.1", log: "")
    }

    private static func bound(to port: Int) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: port).get()
    }
}
