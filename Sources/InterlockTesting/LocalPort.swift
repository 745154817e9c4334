internal import NIOCore
internal import NIOPosix

/// A TCP port of 127.0.0.1 that nobody listens on. Another process may take it before its user does: be ready to try again.
enum LocalPort {
    static func unused() async throws -> Int {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = channel.localAddress?.port
        try await channel.close()
        guard let port else {
            throw RedisServerError(reason: "a socket bound to 127.0.0.1 has no port", log: "")
        }
        return port
    }
}
