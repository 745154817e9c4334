package import RedisClient

/// A command of the RESP API with a typed reply.
package protocol SidecarCall: RedisCommand, Sendable where Reply: Sendable {
    /// The maximum time that the sidecar may wait before it answers.
    var wait: Duration { get }
}

extension SidecarCall {
    package var wait: Duration { .zero }
}
