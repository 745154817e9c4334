internal import Glibc
package import NIOCore

/// Opens connections to Redis.
package protocol RedisDialer: Sendable {
    /// Opens a connection, TLS included; nobody has logged in on it yet.
    /// - Returns: an active channel of bytes on `eventLoop`, before the connect timeout of `configuration` is over.
    func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel>
}
