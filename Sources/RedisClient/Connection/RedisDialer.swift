internal import Glibc
package import NIOCore

/// Opens connections to Redis.
package protocol RedisDialer: Sendable {
    /// Opens a connection, including TLS but not the login.
    /// - Returns: an active channel of bytes on `eventLoop`, within the connect timeout of `configuration`.
    func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel>
}
