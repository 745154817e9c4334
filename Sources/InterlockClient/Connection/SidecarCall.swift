package import RedisClient

/// A command of the RESP door, with a typed reply.
package protocol SidecarCall: RedisCommand, Sendable where Reply: Sendable {
    /// How long the sidecar is asked to wait before it answers.
    var wait: Duration { get }
}

extension SidecarCall {
    package var wait: Duration { .zero }
}
