package import Hiredis

extension RedisServer {
    /// How to reach the server by its Unix socket, with the password of `--requirepass`. Patient, for a noisy machine: a
    /// test of timeouts sets its own.
    package nonisolated var configuration: RedisConfiguration {
        var configuration = RedisConfiguration(address: .unixSocket(path: socketPath))
        configuration.password = password
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    /// The server's Unix socket as a URL: `unix:///tmp/…/redis.sock`, with the password of `--requirepass`.
    package nonisolated var url: String { "unix://\(credentials)\(socketPath)" }

    /// The server's port as a URL: `redis://127.0.0.1:PORT`, or `rediss://` with TLS; `nil` when it has no port.
    package nonisolated var portURL: String? {
        port.map { "\(certificate == nil ? "redis" : "rediss")://\(credentials)127.0.0.1:\($0)" }
    }

    private nonisolated var credentials: String {
        password.map { ":\($0)@" } ?? ""
    }
}
