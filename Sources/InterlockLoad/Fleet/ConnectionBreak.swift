/// How a connection between a sidecar and Redis is broken.
package enum ConnectionBreak: String, Hashable, Sendable, Codable, CaseIterable, CustomStringConvertible {
    /// Both ends see a reset (RST). Answers on their way are lost.
    case reset
    /// The sidecar reads the end; what it still sends reaches Redis, whose answers are lost.
    case endTowardSidecar = "half-close-toward-sidecar"
    /// Redis reads the end, as when the sidecar has nothing more to say.
    case endTowardRedis = "half-close-toward-redis"

    package var description: String { rawValue }
}
