internal import Glibc
package import NIOCore

/// Opens connections to Redis servers.
package protocol RedisDialer: Sendable {
    /// Opens a connection, including TLS but not the login.
    /// - Returns: a future for an active channel of bytes on `eventLoop`. It completes within the connect timeout of
    ///   `configuration`.
    func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel>
}
