/// How a connection between a sidecar and Redis breaks.
package enum ConnectionBreak: String, Hashable, Sendable, Codable, CaseIterable, CustomStringConvertible {
    /// Both ends receive a reset (RST). Answers in transit are lost.
    case reset
    /// The sidecar receives the end of the stream. Its further requests still reach Redis, but the answers are lost.
    case endTowardSidecar = "half-close-toward-sidecar"
    /// Redis receives the end of the stream, as if the sidecar had finished sending.
    case endTowardRedis = "half-close-toward-redis"

    package var description: String { rawValue }
}
